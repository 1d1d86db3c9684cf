"""Makes the update of a training that accumulates the one of its large batch, where the script's own way doesn't come to that.

As ``_autofit_update.py`` beside a ``sitecustomize.py`` that loads it, in a folder of their own, for every Python process of a command:

    PYTHONPATH=/that/folder UPDATE=times:0.25 python train.py --batch-size 16 --accum 4

UPDATE=times:F multiplies the loss of every backward pass by F: 1/4 where a script adds up four averages, 4 where it divides a sum by four.
UPDATE=targets:F is for a loss that is one mean over its targets (labels left out by ``ignore_index``, weights of classes): each micro-batch
counts by its targets, so that those of an optimizer step come to the mean over all of them, as in the large batch. F undoes what the script
divides its loss by: 4 where it divides by four, 1 where it doesn't.
UPDATE=rows:F counts each micro-batch by its rows instead: where a pass over the data ends with fewer micro-batches than a step takes, or
with a smaller one, the last step is the mean over the rows that are left, as in the large batch.
UPDATE_LOGGED=N: what transformers' Trainer logs as its training loss is divided by N, where it adds up N averages.
That it is exact is seen by whoever sets it: autofit does, by short runs of the same rows.
It needs nothing but torch, and the files beside it.
"""

from __future__ import annotations

import functools
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .backward import weighted
from .imported import after_import
from .loaders import leading

VARIABLE = "UPDATE"
LOGGED = "UPDATE_LOGGED"
MOST_NODES = 500
"""Of a loss's graph that are looked at for where its targets are averaged."""


class Update:
    """The backward passes of one process."""

    def __init__(self, way: str, factor: float) -> None:
        """``way``: times, targets or rows."""
        self._way, self._factor = way, factor
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._weight = 0.0
        """Of the targets, or the rows, since the last optimizer step."""
        self._depth = self._calls = 0
        self._rows = 0
        """Of the micro-batch whose backward pass comes next."""

    def install(self) -> None:
        """Patches torch, which has just been imported."""
        import torch
        from torch.optim import optimizer

        backward = torch.autograd.backward

        @functools.wraps(backward)
        def weighed(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> None:
            outermost = not self._depth
            self._depth += 1
            try:
                scale = self._scale(tensors) if outermost else 1.0
                backward(tensors, weighted(tensors, grad_tensors, scale), *args, **kwargs)
            finally:
                self._depth -= 1

        torch.autograd.backward = weighed
        if self._way == "rows":
            self._count_rows(torch)
        if self._way != "times":
            made = optimizer.Optimizer.__init__

            @functools.wraps(made)
            def begun(this: Any, *args: Any, **kwargs: Any) -> None:
                made(this, *args, **kwargs)
                self._optimizers.add(this)

            optimizer.Optimizer.__init__ = begun
            optimizer.register_optimizer_step_post_hook(self._stepped)

    def _count_rows(self, torch: Any) -> None:
        """By the outermost calls of modules that train: what they are called with has its rows first."""
        module = torch.nn.Module
        call = module.__call__

        @functools.wraps(call)
        def called(this: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._calls and torch.is_grad_enabled():
                self._rows = max(self._rows, leading((args, kwargs)) or 0)
            self._calls += 1
            try:
                return call(this, *args, **kwargs)
            finally:
                self._calls -= 1

        module.__call__ = called

    def _stepped(self, *_: Any) -> None:
        self._weight = 0.0

    def _scale(self, tensors: Any) -> float:
        """What this backward pass is multiplied by; the gradients that are there get their part of the new mean."""
        if self._way == "times":
            return self._factor
        weight = self._of_this_one(tensors)
        before, self._weight = self._weight, self._weight + weight
        if not self._weight:
            return self._factor
        for parameter in _parameters(self._optimizers) if before else ():
            if parameter.grad is not None:
                parameter.grad.mul_(before / self._weight)
        return self._factor * weight / self._weight

    def _of_this_one(self, tensors: Any) -> float:
        """The weight of the micro-batch whose backward pass this is; as much as another where that can't be told."""
        if self._way == "targets":
            return _targets(tensors[0] if isinstance(tensors, (list, tuple)) else tensors)
        rows, self._rows = self._rows, 0
        return float(rows or 1)


def _parameters(optimizers: Any) -> Iterator[Any]:
    """Each once, however many optimizers train it."""
    yield from {id(one): one for optimizer in optimizers for group in optimizer.param_groups for one in group["params"]}.values()


def _targets(root: Any) -> float:
    """The weight of the targets that a loss averages, nearest its root; 1 where it has none of them."""
    waiting, seen = [getattr(root, "grad_fn", None)], 0
    while waiting and seen < MOST_NODES:
        node = waiting.pop(0)
        seen += 1
        weight = getattr(node, "_saved_total_weight", None)
        if weight is not None and weight.numel() == 1:
            return float(weight)
        waiting += [one for one, _ in getattr(node, "next_functions", ()) if one is not None]
    return 1.0


def log_the_mean(number: int) -> None:
    """What transformers' Trainer takes for its training loss is the mean of an optimizer step, not the sum."""
    trainer = sys.modules["transformers.trainer"].Trainer
    step = trainer.training_step

    @functools.wraps(step)
    def stepped(*args: Any, **kwargs: Any) -> Any:
        return step(*args, **kwargs) / number

    trainer.training_step = stepped


# ----------------------------------------------------------------------------------------------------------------------
# As a process begins


def begin() -> None:
    """Called by the sitecustomize that has loaded this file, before the program begins."""
    way, _, factor = os.environ.get(VARIABLE, "").partition(":")
    acts: dict[str, Callable[[], None]] = {}
    if way:
        acts["torch"] = Update(way, float(factor)).install
    if logged := os.environ.get(LOGGED, ""):
        acts["transformers.trainer"] = lambda: log_the_mean(int(logged))
    after_import(acts)
