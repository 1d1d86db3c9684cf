"""In a trial what a model generates comes to the longest allowed, as a run's may; DeepSpeed's engine (a stand-in) is fast-forwarded."""

from __future__ import annotations

import pytest
import torch
import transformers
from transformers.generation import utils

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
