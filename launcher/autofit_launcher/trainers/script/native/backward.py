"""Gradients of another weight, and their norm. Beside ``accumulate`` and ``update``."""

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


def norm(parameters: Any) -> Any:
    """The norm of the gradients that are there."""
    import torch

    grads = [one.grad for one in (parameters if isinstance(parameters, (list, tuple)) else (parameters,)) if one.grad is not None]
    return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(one.detach()) for one in grads])) if grads else torch.tensor(0.0)
