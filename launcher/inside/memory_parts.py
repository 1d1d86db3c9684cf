"""Counts how many bytes trained weights and optimizer states are, once an optimizer has stepped: then its states are there."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from contextlib import suppress
from typing import Any


class CountedParts:
    """Of all optimizers of one process. Sizes are those of the tensors, on the trial's device; nothing is kept alive."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._weights: dict[int, int] = {}
        """By the tensor's identity: two optimizers may have the same weights."""
        self._states = 0

    def count(self, optimizer: Any) -> None:
        """Counts an optimizer that has stepped, once. What can't be looked into counts as nothing."""
        with suppress(Exception):  # any optimizer of anybody's
            if optimizer not in self._seen:
                self._seen.add(optimizer)
                self._weights |= {
                    id(one): bytes_of(one) for one in self._here(w for group in optimizer.param_groups for w in group["params"])
                }
                self._states += sum(map(bytes_of, self._here(value for state in optimizer.state.values() for value in state.values())))

    def _here(self, values: Iterable[Any]) -> Iterable[Any]:
        return (one for one in values if getattr(getattr(one, "device", None), "type", "") == self._device)

    def told(self) -> dict[str, int]:
        """Bytes by name; empty before an optimizer has stepped."""
        return {"weights": sum(self._weights.values()), "states": self._states} if self._weights else {}


def bytes_of(tensor: Any) -> int:
    """In this process: of a tensor that ranks share (DTensor) its own part, of one that keeps others within it (8 bits) those."""
    tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    if hasattr(tensor, "__tensor_flatten__"):
        return sum(bytes_of(getattr(tensor, name)) for name in tensor.__tensor_flatten__()[0])
    return int(tensor.numel() * tensor.element_size())
