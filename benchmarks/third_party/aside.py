"""Loaded as ``sitecustomize`` into the processes of a script, plain and launched: what is drawn for an evaluation moves no training.

With it the weights at the end of the two can be compared; without it a run in smaller batches is another draw of the same training.
Draws while no gradients are made (an evaluation, as often as it likes, in whatever batches) don't move those of training.
Written to a folder of its own as ``sitecustomize.py``; needs ``benchmarks`` on PYTHONPATH.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from benchmarks.same_training.observer import Once


def draws(torch: Any) -> None:
    """Of torch, which has just been imported."""
    plain, aside = torch.randint, torch.Generator().manual_seed(0)

    @functools.wraps(plain)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled() and kwargs.get("generator") is None:
            kwargs["generator"] = aside
        return plain(*args, **kwargs)

    torch.randint = drawn


if __name__ == "sitecustomize":
    sys.meta_path[:0] = [Once("torch", draws)]
