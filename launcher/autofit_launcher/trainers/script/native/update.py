"""Makes the update of a training that accumulates the one of its large batch, where the script's own way doesn't come to that.

As ``_autofit_update.py`` beside a ``sitecustomize.py`` that loads it, in a folder of their own, for every Python process of a command:

    PYTHONPATH=/that/folder UPDATE=times:0.25 python train.py --batch-size 16 --accum 4

UPDATE=times:F multiplies the loss of every backward pass by F: 1/4 where a script adds up four averages, 4 where it divides a sum by four.
UPDATE=targets:F:N is for a loss that is one mean over its targets (labels left out by ``ignore_index``, weights of classes): each of N
micro-batches counts by its targets, so that they come to the mean over all of them, as in the batch that they are made of. Where a step has
more than N, the gradients of those before are set aside meanwhile. F undoes what the script divides its loss by: N where it divides by the
number of micro-batches, 1 where it doesn't.
That it is exact is seen by whoever sets it: autofit does, by short runs of the same rows.
It needs nothing but torch, and the files beside it.
"""

from __future__ import annotations

import functools
import os
import weakref
from typing import Any

from .imported import after_import, followed, weighted

VARIABLE = "UPDATE"


class Update:
    """The backward passes of one process."""

    def __init__(self, way: str, factor: float, many: int = 1) -> None:
        """``way``: times or targets. ``many``: micro-batches that come to one mean."""
        self._way, self._factor, self._many = way, factor, many
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._weight = 0.0
        """Weight of the targets of this mean so far."""
        self._backwards = self._depth = 0
        """Backward passes since the last optimizer step; those that are under way."""
        self._aside: list[tuple[Any, Any]] = []
        """Weights, and their gradients of the means before."""

    def install(self, torch: Any) -> None:
        """Patches torch, which has just been imported."""
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
            if outermost:
                self._backward_done()

        torch.autograd.backward = weighed
        if self._way != "times":
            optimizer.Optimizer.__init__ = followed(optimizer.Optimizer.__init__, self._optimizers.add)
            optimizer.register_optimizer_step_post_hook(self._stepped)

    def _stepped(self, *_: Any) -> None:
        self._backwards = 0

    def _scale(self, tensors: Any) -> float:
        """Returns the factor of this backward pass; gradients that are there get their part of the new mean."""
        if self._way == "times":
            return self._factor
        if self._backwards % self._many == 0:
            self._begins_a_mean()
        else:
            self._goes_on_with_a_mean()
        weight = _targets(tensors[0] if isinstance(tensors, (list, tuple)) else tensors)
        before, self._weight = self._weight, self._weight + weight
        if not self._weight:
            return self._factor
        for parameter in self._with_gradients() if before else ():
            parameter.grad.mul_(before / self._weight)
        return self._factor * weight / self._weight

    def _begins_a_mean(self) -> None:
        self._weight = 0.0
        self._aside = [(one, one.grad) for one in self._with_gradients()] if self._backwards else []
        for parameter, _ in self._aside:
            parameter.grad = None

    def _goes_on_with_a_mean(self) -> None:
        self._aside = [(one, before) for one, before in self._aside if one.grad is not None]
        for parameter, before in self._aside:
            parameter.grad = None if parameter.grad is before else parameter.grad.sub_(before)

    def _backward_done(self) -> None:
        """Puts what was set aside back: a step may come before this mean is whole, at the end of a pass."""
        self._backwards += 1
        for parameter, before in self._aside:
            parameter.grad = before if parameter.grad is None else parameter.grad.add_(before)

    def _with_gradients(self) -> list[Any]:
        """Returns each parameter that has a gradient once, however many optimizers train it."""
        every = (one for optimizer in self._optimizers for group in optimizer.param_groups for one in group["params"])
        return list({id(one): one for one in every if one.grad is not None}.values())


def _targets(root: Any) -> float:
    """The weight of the targets that a loss averages: those of all its cross entropies, in chunks, too; 1 where it has none."""
    waiting, found = [getattr(root, "grad_fn", None)], []
    seen: set[Any] = set()
    for node in filter(None, waiting):
        if node not in seen:
            seen.add(node)
            if hasattr(node, "_saved_total_weight"):
                found.append(_weight(node))
            else:
                waiting += [one for one, _ in node.next_functions]
    return float(sum(found)) if found else 1.0


def _weight(entropy: Any) -> Any:
    """The weight of a cross entropy's targets; they are counted where it returns one number for each (``reduction="none"``)."""
    if entropy._saved_reduction:
        return entropy._saved_total_weight
    ignored, weights, targets = entropy._saved_ignore_index, entropy._saved_weight, entropy._saved_target
    targets = targets[targets != (ignored if ignored < 2**63 else ignored - 2**64)]
    return targets.numel() if weights is None else weights[targets].sum()


def begin() -> None:
    """Begins in this process: the sitecustomize that has loaded this file calls it before the program begins."""
    way, factor, many = (*os.environ.get(VARIABLE, "").split(":"), "1", "1")[:3]
    if way:
        after_import({"torch": Update(way, float(factor), int(many)).install})
