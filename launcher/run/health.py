"""Judges a run's pace each second: it hangs at work, or fell off a cliff. Pure.

What is too slow is learned from the run itself: its own steps, and its own pauses between them. ``supervise`` acts.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from statistics import median

from launcher.adapter.progress import TRAIN, VALIDATE, Progress
from launcher.shared.sizes import format_size

LEAST_STEPS = 20
"""Steps from which a run's own pace is known."""
PATIENCE = 50
"""A run at work may go without a step for so many times the longest pause that it has come back from."""
AFTER_A_STALL = 10
"""Where an attempt was ended as hanging, the next one gets so many times the patience: if it was wrong once, it isn't wrong twice."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What is seen of a run in one moment."""

    now: float
    """Monotonic seconds."""
    progress: Progress
    grew: bool = False
    """It has printed something since the last look."""
    used_bytes: int = 0
    busy: float | None = None
    """Part of the time that its card computes; None: there is none, or the driver doesn't tell."""


class StepSilence:
    """How long no step has come from a run that had told its steps. For a run at work: one that computes nothing is ``trial.silence``' own.

    A validation, an epoch's end, the run's end and start-up may take long without a word. Nothing is said there, nor of a run that hasn't
    shown yet how long they take: one that has told neither a validation that it came back from, nor steps of an epoch three epochs long.
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
        """How it hangs, in words; nothing where it doesn't."""
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
        return f"no step and no word for {quiet_s:.0f} s; its longest pause before was {self._longest_s:.1f} s"

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
    """The last that it told was a step of training, and not the last one of an epoch or of the run."""
    at_end = bool(progress.steps and progress.step is not None and progress.step >= progress.steps)
    return progress.phase in (TRAIN, None) and not at_end and (progress.done is None or progress.done < 1)


CLIFF = 3.0
"""A step may take this many times what the run's steps took. What was spilled goes over PCIe at a twentieth of the card's own speed."""
LATELY_S = 120.0
LATELY_STEPS = 8
"""A cliff is one that lasts: at least so long, and so many steps."""
FAST = 5
"""All steps of that time but the fastest fifth must be slow."""
KEPT = 512
"""Paces that are remembered of the time before."""


class Cliffs:
    """How long a step takes, against the run's own steps before."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._steps: int | None = None
        self._epoch: int | None = None
        self._other = False
        self._before: list[float] = []
        self._lately: deque[tuple[float, float]] = deque()

    def look(self, look: Look) -> tuple[float, float] | None:
        """(seconds of a step before, and lately), where that is a cliff."""
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


def spilled(cliff: tuple[float, float], *, used_bytes: int, cap_bytes: int, budget_bytes: int, may_spill: bool) -> str:
    """The evidence that a cliff is the driver's spilling; nothing where it can be anything else.

    The driver must be one that spills, and the card fuller than any trial was let to be: up to the cap nothing had left it.
    """
    if not may_spill or not used_bytes or used_bytes <= cap_bytes:
        return ""
    used = f"{format_size(used_bytes)} of {format_size(budget_bytes)} in use, over the trials' cap of {format_size(cap_bytes)}"
    return f"{steeper(cliff)}, with {used}"


def steeper(cliff: tuple[float, float]) -> str:
    before, lately = cliff
    return f"a step takes {_seconds(lately)}, {lately / before:.1f} times the {_seconds(before)} that it took"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"
