"""Judges whether a run's steps stop coming or have become much slower, and takes in its losses. Pure.

What is too slow is learned from the run's own earlier steps. ``full_run.run`` acts on it. A run that prints nothing and computes nothing
is judged in ``machine.stall``, as trials are.
"""

from __future__ import annotations

import math
from collections import deque
from statistics import median

from autofit_launcher.adapter.log_line import LogLine
from autofit_launcher.adapter.progress import TRAIN, VALIDATE, Progress

LEAST_STEPS = 20
"""A run's own pace is known after this many steps."""
CLIFF = 3.0
"""A step may take this many times what the run's steps took. What was spilled goes over PCIe at a twentieth of the card's own speed."""
LATELY_S = 120.0
LATELY_STEPS = 8
"""A slowdown counts as a cliff once it has lasted for ``LATELY_S`` seconds and ``LATELY_STEPS`` steps."""
FAST = 5
"""The latest steps must all be slow, but for the fastest 1/``FAST`` of them."""
KEPT = 512
"""Paces that are remembered of the time before."""

PATIENCE = 50
"""A run that computes may go without a step for this many times its longest pause so far."""
AFTER_A_STALL = 10
"""Factor of the patience in the attempt after one that was ended as hanging, in case that was a mistake."""


class StepSilence:
    """Measures how long no step has come from a run that prints its steps and uses the processor: a collective that hangs spins.

    A validation, an epoch's end, start-up and the run's end may take long without output, so a run is not judged there. Nor is it judged
    before it has shown how long they take: before one validation has ended, or it has printed steps of its third epoch.
    """

    def __init__(self, *, least_s: float, after_a_stall: bool) -> None:
        more = AFTER_A_STALL if after_a_stall else 1
        self._least_s, self._patience = least_s * more, PATIENCE * more
        self._steps: int | None = None
        self._count = self._rounds = 0
        self._stepped = self._spoke = self._longest_s = 0.0
        self._epoch: float | None = None
        self._validated = False

    def look(self, progress: Progress, *, now: float, grew: bool = False) -> str:
        """Says how the run hangs, in words; empty if it doesn't. ``now``: monotonic seconds; ``grew``: it has printed something."""
        steps = progress.steps_done
        self._validated |= progress.phase == VALIDATE
        if grew:
            self._spoke = now
        if steps is not None and steps != self._steps and progress.phase != VALIDATE:
            self._step(progress, steps, now)
            return ""
        quiet_s = now - max(self._stepped, self._spoke)
        known = self._count >= LEAST_STEPS and self._rounds > 0
        if not known or not _in_mid_epoch(progress) or quiet_s <= max(self._least_s, self._patience * self._longest_s):
            return ""
        return f"no step and no output for {quiet_s:.0f} s; its longest pause before was {self._longest_s:.1f} s"

    def _step(self, progress: Progress, steps: int, now: float) -> None:
        if self._steps is not None:
            self._longest_s = max(self._longest_s, now - self._stepped)
            self._count += 1
        if self._validated:
            self._rounds, self._validated = self._rounds + 1, False
        if progress.of_epoch and progress.epoch != self._epoch:
            self._rounds += self._epoch is not None and self._count > 0 and progress.epoch is not None and progress.epoch >= 3
            self._epoch = progress.epoch
        self._steps, self._stepped = steps, now


def _in_mid_epoch(progress: Progress) -> bool:
    """Tells whether the last printed step is one of training, and not the last of an epoch or of the run."""
    at_end = bool(progress.steps and progress.step is not None and progress.step >= progress.steps)
    return progress.phase in (TRAIN, None) and not at_end and (progress.done is None or progress.done < 1)


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
        """Says how steep the cliff is that the run is on; empty if it is on none. ``now``: monotonic seconds."""
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
