"""DeepSpeed's engine in fast-forward; with a stand-in for the engine, which needs no DeepSpeed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from autofit_launcher.trainers.hf.inside import deepspeed


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
