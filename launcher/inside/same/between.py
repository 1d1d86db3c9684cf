"""What happens between the micro-batches of a twin's first optimizer step: nothing but the sum of gradients may change there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Between:
    """The micro-batches of one first step."""

    def __init__(self, values: Callable[[Any], Any]) -> None:
        """``values``: a copy of (a part of) a tensor; None of None."""
        self._values = values
        self._weights: dict[int, Any] = {}
        self._sum: list[Any] = []
        self._first: list[Any] = []
        self.uneven = 0.0
        """How far what a micro-batch adds to the gradients lies from what the first one added, in parts of that: of one row, repeated,
        each adds the same."""

    def begins(self, parameters: Sequence[Any]) -> None:
        """The first backward pass begins."""
        self._weights = {id(one): self._values(one) for one in parameters}

    def strayed(self, parameters: Sequence[Any]) -> float:
        """How far the weights have gone from where they were at the first backward pass, before any step."""
        pairs = [(self._weights[id(one)], self._values(one)) for one in parameters if id(one) in self._weights]
        length = sum(_square(before) for before, _ in pairs)
        return float((sum(_square(now - before) for before, now in pairs) / length) ** 0.5) if length else 0.0

    def added(self, parameters: Sequence[Any]) -> None:
        """A backward pass is through."""
        now = [self._values(one.grad) for one in parameters]
        before = self._sum or [None] * len(now)
        part = [(a - b if b is not None else a) for a, b in zip(now, before, strict=False) if a is not None]
        self._sum = now
        if not self._first:
            self._first = part
        elif len(part) == len(self._first) and (length := sum(map(_square, self._first))):
            apart = sum(_square(one - first) for one, first in zip(part, self._first, strict=True))
            self.uneven = max(self.uneven, float((apart / length) ** 0.5))


def _square(values: Any) -> float:
    return float((values.double() ** 2).sum())
