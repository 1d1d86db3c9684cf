"""Judges whether a run's steps have become much slower, and takes in its losses. Pure.

What is too slow is learned from the run's own earlier steps. ``run.watch`` acts on it. A run that prints nothing and computes nothing
is judged in ``trial.silence``, as trials are.
"""

from __future__ import annotations

import math
from collections import deque
from statistics import median

from launcher.adapter.log_line import LogLine
from launcher.adapter.progress import VALIDATE, Progress

LEAST_STEPS = 20
"""A run's own pace is known after this many steps."""
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

    def look(self, progress: Progress, *, now: float) -> str:
        """How steep the cliff is that the run is on, in words; empty if it is on none. ``now``: monotonic seconds."""
        steps = progress.steps_done
        self._other |= progress.phase == VALIDATE
        if steps is None or progress.phase == VALIDATE or steps == self._steps:
            return ""
        passed = steps - (self._steps or 0)
        epoch = math.floor(progress.epoch) if progress.epoch is not None else None
        across = self._other or epoch != self._epoch or passed <= 0  # a validation or an epoch's end lies between
        if self._at is not None and not across:
            self._lately.append((now, (now - self._at) / passed))
            self._age(now)
        self._at, self._steps, self._epoch, self._other = now, steps, epoch, False
        return self._cliff(now)

    def _age(self, now: float) -> None:
        while len(self._lately) > LATELY_STEPS and now - self._lately[1][0] >= LATELY_S:
            self._before.append(self._lately.popleft()[1])
        if len(self._before) > KEPT:
            self._before = self._before[::2]

    def _cliff(self, now: float) -> str:
        if len(self._before) < LEAST_STEPS or len(self._lately) < LATELY_STEPS or now - self._lately[0][0] < LATELY_S:
            return ""
        before, paces = median(self._before), sorted(pace for _, pace in self._lately)
        return _steeper(before, median(paces)) if paces[len(paces) // FAST] > CLIFF * before else ""


def _steeper(before: float, lately: float) -> str:
    return f"a step takes {_seconds(lately)}, {lately / before:.1f} times the {_seconds(before)} that it took"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"


PACE_S = 60.0
"""Speed is measured over the last minute, or over the last two printed steps if they are further apart."""


class Pace:
    """Computes the speed of a run's steps from when they were printed."""

    def __init__(self) -> None:
        self._told: deque[tuple[float, int]] = deque()

    def saw(self, progress: Progress, *, at: float) -> None:
        steps = progress.steps_done
        if steps is None or progress.phase == VALIDATE or (self._told and steps == self._told[-1][1]):
            return
        if self._told and steps < self._told[-1][1]:
            self._told.clear()  # it counts anew
        self._told.append((at, steps))
        while len(self._told) > 2 and at - self._told[0][0] > PACE_S:
            self._told.popleft()

    @property
    def steps_per_second(self) -> float | None:
        if len(self._told) < 2:
            return None
        (began, first), (ended, last) = self._told[0], self._told[-1]
        return (last - first) / (ended - began) if ended > began else None

    def speeds(self, batch: int | None) -> dict[str, float | None]:
        """The keys of a line of the series. ``batch``: samples of a step; None if unknown."""
        speed = self.steps_per_second
        return {"steps_per_second": speed, "samples_per_second": speed * batch if speed is not None and batch else None}


class Losses:
    """Takes loss reports as they come. A loss that is finite again was no divergence: a step that mixed precision skipped, say."""

    def __init__(self, most: int) -> None:
        self._most, self._streak, self._about = most, 0, ""
        self.line = ""
        """The last report, where it was not finite; else empty."""
        self.gradients = ""
        """The last report of the gradients' norm, where that is not finite. Hugging Face's Trainer logs the mean of earlier losses in the
        place of one that isn't finite (its default), and the norm as it is. A step that mixed precision left out has such a norm, too."""

    def saw(self, line: str, said: LogLine) -> str:
        """Returns "first" at the first report that isn't finite, "enough" at ``most`` of them in a row, each once; else "".

        ``said``: what was read of the line.
        """
        if said.gradients_finite is not None:
            self.gradients = "" if said.gradients_finite else line
        if said.loss_finite is None:
            return ""
        if said.loss_finite:
            self._streak, self._about, self.line = 0, "", ""
            return ""
        self.line = line
        if said.loss_of and said.loss_of == self._about:
            return ""
        self._about = said.loss_of
        self._streak += 1
        return "enough" if self._streak == self._most else "first" if self._streak == 1 else ""
