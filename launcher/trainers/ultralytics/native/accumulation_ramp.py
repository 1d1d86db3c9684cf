"""How many micro-batches an Ultralytics run accumulates, and how that rises over its warm-up. Beside ``yolo.py``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np


def effective_batch(asked_batch: int, asked_nbs: int) -> int:
    """Images per optimizer step that Ultralytics really takes after warm-up (``accumulate``, engine/trainer.py:321)."""
    return asked_batch * asked_accumulation(asked_batch, asked_nbs)


def asked_accumulation(asked_batch: int, asked_nbs: int) -> int:
    return max(round(asked_nbs / asked_batch), 1)


@dataclass(frozen=True, kw_only=True)
class Ramp:
    """How an Ultralytics ramps its accumulation over the warm-up. It has changed over the versions, and so have whole steps."""

    floor: int
    """A warm-up is at least so many iterations; 0 where it is as long as its epochs."""
    capped: bool
    """It ends at the whole accumulation, which is at most the run's micro-batches; else at nbs / batch."""
    inclusive: bool
    """The last iteration of it reaches the end; else the one before it is the last that counts."""

    @classmethod
    def of(cls, trainer: Any) -> Ramp:
        """The ramp of ``trainer``'s class, by the words of its loop; what it then assigns is held against this (``Exact.accumulate``)."""
        try:
            loop = inspect.getsource(trainer._do_train)
        except OSError:  # only compiled files: taken for the newest
            loop = "acc0"
        return cls(
            floor=0 if hasattr(trainer, "_get_warmup_iterations") else 100, capped="acc0" in loop, inclusive="if ni < nw" not in loop
        )

    def at(self, iteration: int, *, warmup: int, end: Fraction) -> int:
        """Micro-batches per step at an iteration of a run that begins at 0."""
        return max(1, int(np.interp(min(iteration, self.last(warmup)), [0, warmup], [1, float(end)]).round()))

    def last(self, warmup: int) -> int:
        """The last iteration at which Ultralytics assigns its accumulation."""
        return warmup if self.inclusive else warmup - 1


class AskedRun:
    """The asked run, micro-batch by micro-batch: where it takes an optimizer step."""

    def __init__(self, start: int, *, ramp: Callable[[int], int]) -> None:
        """``ramp``: iteration -> micro-batches per step."""
        self._at, self._last, self._ramp = start, start - 1, ramp
        self._due = False

    def steps_at(self, iteration: int) -> bool:
        """Whether it has stepped since ``stepped``, once it has trained on so many micro-batches."""
        while self._at < iteration:
            self._due = self._steps() or self._due
        return self._due

    def steps_in_all(self, iterations: int, *, warmup: int) -> int:
        """Of a run of so many micro-batches that is not ended early. ``warmup``: after so many its accumulation stays as it is."""
        made = sum(self._steps() for _ in range(min(warmup, iterations)))
        return made + max(iterations - 1 - self._last, 0) // self._ramp(warmup)

    def _steps(self) -> bool:
        """Trains on one more micro-batch; whether it steps then."""
        steps = self._at - self._last >= self._ramp(self._at)
        if steps:
            self._last = self._at
        self._at += 1
        return steps

    def stepped(self) -> None:
        self._due = False
