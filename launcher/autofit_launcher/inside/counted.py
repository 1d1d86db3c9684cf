"""Optimizer steps, and the micro-batches that each is made of, counted in one process.

With several optimizers the one that stepped least counts. A script may change its weights without torch.optim
(``p.data.add_(p.grad, alpha=-lr)``): then each backward pass is taken for a step, and accumulation can't be proven.
"""

from __future__ import annotations

import statistics
import weakref
from collections.abc import Iterable
from typing import Any

PATIENCE = 40
"""Steps of the busiest optimizer for which one that hasn't stepped yet is waited for: critics step several times to one of their
generator's, and some optimizers (a finder's, one that sets in late) never step while we look. By so many backward passes a script that
uses torch.optim has made an optimizer."""
BY_HAND = "the script changes its weights without torch.optim: each backward pass is taken for a step"
UNSEEN = (
    "the script changes its weights without torch.optim: that several micro-batches make one update can't be seen or done from outside, "
    "so that only a rung without accumulation can be proven"
)


class NotExact(RuntimeError):
    """The rung's accumulation can't be proven. The message says why, and what would work."""


class Hand:
    """Stands for the optimizer that there isn't."""

    param_groups: tuple[Any, ...] = ()


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
        """Starts to count ``since_mark`` anew."""
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
        """True if there is any optimizer."""
        return bool(self._steps)

    def hold(self, parameters: Iterable[Any]) -> bool:
        """Tells whether any of the optimizers steps one of the parameters."""
        held = {id(one) for optimizer in self._steps for group in optimizer.param_groups for one in group["params"]}
        return any(id(one) in held for one in parameters)

    @property
    def several(self) -> bool:
        """True if more optimizers than one have stepped."""
        return sum(steps > 0 for steps in self._steps.values()) > 1

    @staticmethod
    def _least(counts: Any) -> int:
        found = list(counts)
        most = max(found, default=0)
        return min((count for count in found if count or most < PATIENCE), default=0)


class MicroBatches:
    """Micro-batches of each optimizer step. Those that were short where a pass ended are left out."""

    def __init__(self, told: int) -> None:
        """``told``: micro-batches per optimizer step that the script was told to take."""
        self.told = told
        self.drawn = self.forwards = self.backwards = 0
        """Real training batches, calls of the model and backward passes since the last optimizer step."""
        self.parted = False
        """A loader gives the whole batch of a step, which the script then takes in parts: the model's input is the micro-batch."""
        self.at_the_end = False
        """The last training batch that was drawn is its pass's last: by the loader's length, or since the pass has ended.
        A script may know it before it trains that batch: accelerate's loaders look one ahead, and force a step there."""
        self._in_steps: list[int] = []
        self._short = False
        """The last of them is short, and nothing came after it yet."""

    def step(self, *, by_trainer: bool) -> None:
        """A step is made of as many batches as there were both data and backward passes for (a loss may have two of them).

        ``by_trainer``: a trainer that is steered draws its batches by itself: backward passes alone count, and any step may be short.
        """
        seen = self.forwards if self.parted else self.drawn or self.forwards
        count = self.backwards if by_trainer or not seen else min(seen, self.backwards)
        self.drawn = self.forwards = self.backwards = 0
        self._short = count < self.told
        if self._short and (by_trainer or self.at_the_end):
            self._short = self.at_the_end = False  # an end excuses one step
            return
        self._in_steps.append(count)

    def usual(self) -> tuple[int, int] | None:
        """Returns (accumulation, micro-batches that the script takes by itself for each that it was told); None before two steps."""
        usual = statistics.median_low(self._in_steps[1:]) if len(self._in_steps) > 1 else 0
        if not usual:
            return None
        by_itself = usual % self.told == 0 and not (self.parted and self.told > 1)  # a whole batch has as many parts as were told
        return (self.told, usual // self.told) if by_itself else (usual, 0)

    def ran_out(self) -> bool:
        """Takes back the last step where it was short directly before an end that nobody could foresee. Tells whether it did."""
        if not self._short or self.drawn or self.backwards:
            return False
        self._in_steps.pop()
        self._short = False
        return True
