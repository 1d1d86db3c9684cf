"""In a trial what a model generates comes to the longest allowed, as a run's may; DeepSpeed's engine (a stand-in) is fast-forwarded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from transformers.generation import utils

from autofit_launcher.trainers.hf.inside import deepspeed
from autofit_launcher.trainers.hf.inside.hooks import hold_to_full_length


def test_no_end_of_sentence_comes_before_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(utils.GenerationMixin, "generate", utils.GenerationMixin.generate)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=40, pad_token_id=0, **sizes)).eval()
    prompt = torch.tensor([[5, 6, 7]])
    ends = int(model.generate(prompt, max_new_tokens=1, do_sample=False)[0, -1])
    own = transformers.GenerationConfig(max_new_tokens=9, do_sample=False, eos_token_id=ends, pad_token_id=0)
    assert model.generate(prompt, generation_config=own).shape == (1, 4), "the end is what it says first"
    before = own.min_length
    hold_to_full_length(utils)
    assert model.generate(prompt, generation_config=own).shape == (1, 12)
    assert own.min_length == before


class Engine:
    """Accumulates two micro-batches of 4."""

    def __init__(self) -> None:
        self.micro_steps = self.global_steps = self.global_samples = 0
        self.really: list[str] = []

    def backward(self, loss: float, scale_wrt_gas: bool = True) -> float:
        self.really.append("backward")
        return loss / 2

    def step(self, lr_kwargs: Any = None) -> None:
        self.really.append("step")
        self.micro_steps += 1

    def is_gradient_accumulation_boundary(self) -> bool:
        return (self.micro_steps + 1) % 2 == 0

    def train_batch_size(self) -> int:
        return 8


def test_in_fast_forward_an_engine_does_nothing_and_counts_on() -> None:
    class Fresh(Engine):
        pass

    session: Any = SimpleNamespace(forwarding=False)
    deepspeed.install(session, SimpleNamespace(DeepSpeedEngine=Fresh))
    engine = Fresh()
    assert engine.backward(4.0) == 2.0
    engine.step()
    session.forwarding = True
    for _ in range(3):
        assert engine.backward(4.0, scale_wrt_gas=False) == 4.0
        engine.step()
    assert engine.really == ["backward", "step"]
    assert (engine.micro_steps, engine.global_steps, engine.global_samples) == (4, 2, 16)
    session.forwarding = False
    engine.backward(4.0)
    assert engine.really[2:] == ["backward"]
