"""The roots of a backward pass: how its loss was computed, and gradients of another weight. Beside ``accumulate`` and ``update``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def weighted(tensors: Any, given: Any, scale: float) -> Any:
    """Gradients of the roots of a backward pass, so that all that comes of it is multiplied by ``scale``."""
    import torch

    roots: Sequence[Any] = tuple(tensors) if isinstance(tensors, (list, tuple)) else (tensors,)
    given = (None,) * len(roots) if given is None else tuple(given) if isinstance(given, (list, tuple)) else (given,)
    if scale == 1.0 or any(one is None and root.numel() != 1 for one, root in zip(given, roots, strict=False)):
        return None if all(one is None for one in given) else given  # torch says what is wrong with a root that is no number
    return tuple(torch.full_like(root, scale) if one is None else one * scale for one, root in zip(given, roots, strict=True))


_THROUGH = ("Add", "Sub", "Rsub", "Mul", "Div", "Neg", "ToCopy", "Squeeze", "View", "Clone", "Alias")
"""Nodes between the root and the losses: arithmetic on single numbers."""


def reductions(root: Any) -> dict[str, str]:
    """How the loss was made of its batch, as far as its graph tells: ``sum`` and by what; ``unevenly`` where targets don't count alike."""
    found: dict[str, str] = {}
    waiting: list[tuple[Any, bool]] = [(getattr(root, "grad_fn", None), False)]
    seen = 0
    while waiting and seen < 200:
        node, divided = waiting.pop()
        seen += 1
        name = type(node).__name__.removesuffix("0").removesuffix("1").removesuffix("Backward")
        reduction = getattr(node, "_saved_reduction", None)
        if name == "Sum" or reduction == 2:
            if not divided:
                found["sum"] = f"{name}, not divided by anything"
        elif reduction is not None:
            if _uneven(node):
                found["unevenly"] = name
        elif name.startswith(_THROUGH):
            waiting += [(one, divided or name == "Div") for one, _ in node.next_functions if one is not None]
    return found


def _uneven(node: Any) -> bool:
    weight, target = getattr(node, "_saved_total_weight", None), getattr(node, "_saved_target", None)
    return weight is not None and target is not None and weight.numel() == 1 and abs(float(weight) - target.numel()) > 0.5


def norm(parameters: Any) -> Any:
    """The norm of the gradients that are there."""
    import torch

    grads = [one.grad for one in (parameters if isinstance(parameters, (list, tuple)) else (parameters,)) if one.grad is not None]
    return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(one.detach()) for one in grads])) if grads else torch.tensor(0.0)
