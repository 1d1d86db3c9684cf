"""Hooks into DeepSpeed's engine: where fast-forward leaves out a backward pass, so does what the engine does around it.

ZeRO collects gradients in buckets as they are made, and reduces what it takes for granted is there (``IndexError`` in 0.19). The engine's
counts go on: a script may end by ``global_steps``.
"""

from __future__ import annotations

import functools
from typing import Any

from ....inside.instrument import Instrument


def install(instrument: Instrument, module: Any) -> None:
    """Patches ``deepspeed.runtime.engine``."""
    engine = module.DeepSpeedEngine
    backward, step = engine.backward, engine.step

    @functools.wraps(backward)
    def passed_back(this: Any, loss: Any, *args: Any, **kwargs: Any) -> Any:
        return loss if instrument.forwarding else backward(this, loss, *args, **kwargs)

    @functools.wraps(step)
    def stepped(this: Any, *args: Any, **kwargs: Any) -> Any:
        if not instrument.forwarding:
            return step(this, *args, **kwargs)
        if this.is_gradient_accumulation_boundary():
            this.global_steps += 1
            this.global_samples += this.train_batch_size()
        this.micro_steps += 1
        return None

    engine.backward, engine.step = passed_back, stepped
