"""Scripts that change their weights without torch.optim (``p.data.add_(p.grad, alpha=-lr)``): what of them is seen, and what can be proven.

Their backward passes are seen, and there is no optimizer whose state a first step would make: what memory they need is proven by backward
passes. When the weights are changed is not seen: that several micro-batches make one update can't be proven, and such a rung is refused.
"""

from __future__ import annotations

from typing import Any

from .progress import PATIENCE

ENOUGH = PATIENCE
"""Backward passes by which a script that uses torch.optim has made an optimizer."""
NOTE = "the script changes its weights without torch.optim: each backward pass is taken for a step"
UNSEEN = (
    "the script changes its weights without torch.optim: that several micro-batches make one update can't be seen or done from outside, "
    "so that only a rung without accumulation can be proven"
)


class NotExact(RuntimeError):
    """The rung's accumulation can't be proven. The message says why, and what would work."""


class Hand:
    """Stands for the optimizer that there isn't."""

    param_groups: tuple[Any, ...] = ()
