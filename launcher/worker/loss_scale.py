"""The scale of the losses of fp16 training, in a trial.

A scaler begins with 65536 and takes no step where a gradient overflows, so that the first steps of a training are often skipped: the few
of a trial, then, and with them the states that an optimizer makes at its first step.
"""

from __future__ import annotations

from typing import Any


def make_small(scaler: Any) -> None:
    """Lets a ``torch.amp.GradScaler`` begin with 1. Memory is the same; no gradient overflows that doesn't without a scale."""
    if scaler is not None and scaler.is_enabled():
        scaler.load_state_dict({**scaler.state_dict(), "scale": 1.0})


def skips(scaler: Any, before: float) -> bool:
    """Whether the step since ``before``, the scale that was, was skipped."""
    return scaler is not None and scaler.is_enabled() and float(scaler.get_scale()) < before


def scale_of(scaler: Any) -> float:
    """1 where there is no scaler, or none that scales."""
    return float(scaler.get_scale()) if scaler is not None and scaler.is_enabled() else 1.0
