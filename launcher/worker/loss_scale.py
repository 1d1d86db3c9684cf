"""The scale of the losses of fp16 training, in a trial.

A scaler begins with 65536 and takes no step where a gradient overflows, so that the first steps of a training are often skipped: the few
of a trial, then, and with them the states that an optimizer makes at its first step.
"""

from __future__ import annotations

from typing import Any

SMALLEST = 2.0**-16
"""A gradient of up to 4e9 doesn't overflow with it. Memory is the same with any scale."""
SKIPPED = "in fp16 gradients of a step weren't finite, however small the scale of the loss: it was skipped"


def make_small(scaler: Any) -> None:
    """Lets a ``torch.amp.GradScaler`` begin with ``SMALLEST``. 1 was too large: attention behind a batch norm of hardly any variance (a
    frozen, untrained backbone) has gradients of 1e6 (played survival, seed 2005)."""
    if scaler is not None and scaler.is_enabled():
        scaler.load_state_dict({**scaler.state_dict(), "scale": SMALLEST})


def skips(scaler: Any, before: float) -> bool:
    """Whether the step since ``before``, the scale that was, was skipped."""
    return scaler is not None and scaler.is_enabled() and float(scaler.get_scale()) < before


def scale_of(scaler: Any) -> float:
    """1 where there is no scaler, or none that scales."""
    return float(scaler.get_scale()) if scaler is not None and scaler.is_enabled() else 1.0
