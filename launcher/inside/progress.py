"""Optimizers that exist and the steps they take -> how far training is: as far as the one that stepped least."""

from __future__ import annotations

import weakref
from typing import Any

PATIENCE = 40
"""Steps of the busiest optimizer for which one that hasn't stepped yet is waited for: critics step several times to one of their
generator's, and some optimizers (a finder's, one that sets in late) never step while we look."""


class StepsByOptimizer:
    """Steps by optimizer. One that is gone (a learning-rate finder's) counts no more."""

    def __init__(self) -> None:
        self._steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._marked: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def made(self, optimizer: Any) -> None:
        self._steps.setdefault(optimizer, 0)

    def stepped(self, optimizer: Any) -> None:
        self._steps[optimizer] = self._steps.get(optimizer, 0) + 1

    def mark(self) -> None:
        """From here on ``since_mark`` counts."""
        self._marked = weakref.WeakKeyDictionary(self._steps)

    @property
    def least(self) -> int:
        return self._least(self._steps.values())

    @property
    def since_mark(self) -> int:
        waited = max(self._steps.values(), default=0) < PATIENCE
        return self._least(steps - self._marked.get(one, 0) for one, steps in self._steps.items() if steps or waited)

    @property
    def known(self) -> bool:
        """Whether there is any."""
        return bool(self._steps)

    @property
    def several(self) -> bool:
        """Whether more optimizers than one have stepped."""
        return sum(steps > 0 for steps in self._steps.values()) > 1

    @property
    def idle(self) -> bool:
        """Whether an optimizer exists that has never stepped."""
        return 0 in self._steps.values()

    @staticmethod
    def _least(counts: Any) -> int:
        found = list(counts)
        most = max(found, default=0)
        return min((count for count in found if count or most < PATIENCE), default=0)
