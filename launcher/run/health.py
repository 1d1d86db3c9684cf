"""Judges a run's pace each second: whether its steps stop coming, or have become much slower. Pure.

What is too slow is learned from the run itself, from its own steps and the pauses between them. ``run.watch`` acts on it.
A run that prints nothing and computes nothing is judged in ``trial.silence``, as trials are.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from statistics import median

from launcher.adapter.progress import TRAIN, VALIDATE, Progress

LEAST_STEPS = 20
"""A run's own pace is known after this many steps."""
PATIENCE = 50
"""A run that computes may go without a step for this many times its longest pause so far."""
AFTER_A_STALL = 10
"""After an attempt was ended as hanging, the next one gets this many times the patience, in case that was a mistake."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """A look at a run at one moment."""

    now: float
    """Monotonic seconds."""
    progress: Progress
    grew: bool = False
    """The run has printed something since the last look."""
    used_bytes: int = 0
    busy: float | None = None
    """Fraction of the time in which its card computes; None if there is no card, or the driver doesn't tell."""


class StepSilence:
    """How long no step has come from a run that prints its steps and uses the processor.

    A validation, an epoch's end, start-up and the run's end may take long without output, so a run is not judged there. Nor is it judged
    before it has shown how long they take: before one validation has ended, or it has printed steps of its third epoch.
    """

    def __init__(self, *, least_s: float, after_a_stall: bool = False) -> None:
        more = AFTER_A_STALL if after_a_stall else 1
        self._least_s, self._patience = least_s * more, PATIENCE * more
        self._steps: int | None = None
        self._count = self._rounds = 0
        self._stepped = self._spoke = 0.0
        self._longest_s = 0.0
        self._epoch: float | None = None
        self._validated = False

    def look(self, look: Look) -> str:
        """How the run hangs, in words; empty if it doesn't."""
        steps = look.progress.steps_done
        self._validated |= look.progress.phase == VALIDATE
        if look.grew:
            self._spoke = look.now
        if steps is not None and steps != self._steps and look.progress.phase != VALIDATE:
            self._step(look, steps)
            return ""
        quiet_s = look.now - max(self._stepped, self._spoke)
        most_s = max(self._least_s, self._patience * self._longest_s)
        if not self._known or not _in_mid_epoch(look.progress) or quiet_s <= most_s:
            return ""
        return f"no step and no output for {quiet_s:.0f} s; its longest pause before was {self._longest_s:.1f} s"

    @property
    def _known(self) -> bool:
        return self._count >= LEAST_STEPS and self._rounds > 0

    def _step(self, look: Look, steps: int) -> None:
        if self._steps is not None:
            self._longest_s = max(self._longest_s, look.now - self._stepped)
            self._count += 1
        if self._validated:
            self._rounds, self._validated = self._rounds + 1, False
        if look.progress.of_epoch and look.progress.epoch != self._epoch:
            self._rounds += self._epoch is not None and self._count > 0 and look.progress.epoch is not None and look.progress.epoch >= 3
            self._epoch = look.progress.epoch
        self._steps, self._stepped = steps, look.now


def _in_mid_epoch(progress: Progress) -> bool:
    """Tells whether the last printed step is one of training, and not the last of an epoch or of the run."""
    at_end = bool(progress.steps and progress.step is not None and progress.step >= progress.steps)
    return progress.phase in (TRAIN, None) and not at_end and (progress.done is None or progress.done < 1)


CLIFF = 3.0
"""A step may take this many times what the run's steps took. What was spilled goes over PCIe at a twentieth of the card's own speed."""
LATELY_S = 120.0
LATELY_STEPS = 8
"""A slowdown counts as a cliff once it has lasted for ``LATELY_S`` seconds and ``LATELY_STEPS`` steps."""
FAST = 5
"""All steps of that time but the fastest fifth must be slow."""
KEPT = 512
"""Paces that are remembered of the time before."""


class Cliffs:
    """Compares the time of a run's latest steps with that of its earlier ones; a lasting, steep slowdown is a cliff."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._steps: int | None = None
        self._epoch: int | None = None
        self._other = False
        self._before: list[float] = []
        self._lately: deque[tuple[float, float]] = deque()

    def look(self, look: Look) -> tuple[float, float] | None:
        """(seconds of a step before, and lately) if the run is on a cliff; None otherwise."""
        progress, steps = look.progress, look.progress.steps_done
        self._other |= progress.phase == VALIDATE
        if steps is None or progress.phase == VALIDATE or steps == self._steps:
            return None
        passed = steps - (self._steps or 0)
        epoch = math.floor(progress.epoch) if progress.epoch is not None else None
        across = self._other or epoch != self._epoch or passed <= 0  # a validation or an epoch's end lies between
        if self._at is not None and not across:
            self._lately.append((look.now, (look.now - self._at) / passed))
            self._age(look.now)
        self._at, self._steps, self._epoch, self._other = look.now, steps, epoch, False
        return self._cliff(look.now)

    def _age(self, now: float) -> None:
        while len(self._lately) > LATELY_STEPS and now - self._lately[1][0] >= LATELY_S:
            self._before.append(self._lately.popleft()[1])
        if len(self._before) > KEPT:
            self._before = self._before[::2]

    def _cliff(self, now: float) -> tuple[float, float] | None:
        if len(self._before) < LEAST_STEPS or len(self._lately) < LATELY_STEPS or now - self._lately[0][0] < LATELY_S:
            return None
        before, lately = median(self._before), sorted(pace for _, pace in self._lately)
        return (before, median(lately)) if lately[len(lately) // FAST] > CLIFF * before else None


def steeper(cliff: tuple[float, float]) -> str:
    before, lately = cliff
    return f"a step takes {_seconds(lately)}, {lately / before:.1f} times the {_seconds(before)} that it took"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"
