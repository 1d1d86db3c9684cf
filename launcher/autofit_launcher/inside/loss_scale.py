"""The scale of the losses of fp16 training, in a trial.

A scaler begins with 65536 and takes no step where a gradient overflows, so that the first steps of a training are often skipped: the few
of a trial, then, and with them the states that an optimizer makes at its first step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def skip_nothing(scaler: Any, parameters: Iterable[Any]) -> None:
    """Lets a ``torch.amp.GradScaler`` begin with 1, and gradients that overflow even so be zeros. Memory is the same.

    No scale is small enough for all: attention behind a batch norm of hardly any variance (a frozen, untrained backbone) has gradients
    of 1e9 (played survival, seeds 2005 and 2009). ``parameters``: what is trained.
    """
    if scaler is None or not scaler.is_enabled():
        return
    scaler.load_state_dict({**scaler.state_dict(), "scale": 1.0})
    for parameter in parameters:
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(_finite)


def _finite(parameter: Any) -> None:
    parameter.grad.nan_to_num_(0.0, 0.0, 0.0)
