"""Judges a run's pace each second: whether its steps stop coming, or have become much slower. Pure.

What is too slow is learned from the run itself, from its own steps and the pauses between them. ``run.watch`` acts on it.
A run that prints nothing and computes nothing is judged in ``trial.silence``, as trials are.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from launcher.adapter.log_line import LogLine
from launcher.adapter.progress import TRAIN, VALIDATE, Progress
from launcher.machine.devices import Budget
from launcher.run.cause import Ended
from launcher.shared.sizes import format_size

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


class Remark(NamedTuple):
    """A remark about the run's pace."""

    what: str
    ends: Ended | None = None
    """Why the run is to be ended; None: it goes on."""


class Pacing:
    """Judges the pace of one attempt, every second."""

    def __init__(self, budget: Budget, *, stall_s: float, after_a_stall: bool = False) -> None:
        self._budget, self._fell = budget, False
        self._steps, self._cliffs = StepSilence(least_s=stall_s, after_a_stall=after_a_stall), Cliffs()

    def look(self, look: Look) -> Iterator[Remark]:
        if hangs := self._steps.look(look):
            yield Remark(hangs, Ended.STALLED)
        if (cliff := self._cliffs.look(look)) is not None and not self._fell:
            self._fell = True
            yield self._of_cliff(steeper(cliff), look)

    def _of_cliff(self, steeper: str, look: Look) -> Remark:
        """A slowdown is the driver's spilling where it is one that spills, and the run uses more than trials may: below the cap nothing was
        spilled in a trial."""
        budget, cap = self._budget, self._budget.cap_bytes
        used = f"{format_size(look.used_bytes)} of {format_size(budget.budget_bytes)} in use" if look.used_bytes else ""
        if budget.may_spill and look.used_bytes > cap:
            over = f"with {used}, over the trials' cap of {format_size(cap)}"
            return Remark(f"spills out of the card: {steeper}, {over}", Ended.SPILLED)
        return Remark(f"has slowed down: {steeper}{f'; {used}' if used else ''}")


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
        self.since: float | None = None
        """When the first of the reports in a row that aren't finite was printed, at the earliest; None: the last report was finite."""
        self.line = ""
        """The last report that was not finite; empty where ``since`` is None."""
        self.gradients = ""
        """The last report of the gradients' norm, where that is not finite. Hugging Face's Trainer logs the mean of earlier losses in the
        place of one that isn't finite (its default), and the norm as it is. A step that mixed precision left out has such a norm, too."""

    def saw(self, line: str, said: LogLine, *, at: float) -> str:
        """Returns "first" at the first report that isn't finite, "enough" at ``most`` of them in a row, each once; else "".

        ``said``: what was read of the line. ``at``: the earliest time at which it can have been printed.
        """
        if said.gradients_finite is not None:
            self.gradients = "" if said.gradients_finite else line
        if said.loss_finite is None:
            return ""
        if said.loss_finite:
            self._streak, self._about, self.since, self.line = 0, "", None, ""
            return ""
        self.line = line
        if said.loss_of and said.loss_of == self._about:
            return ""
        self._about = said.loss_of
        self._streak += 1
        self.since = at if self.since is None else self.since
        return "enough" if self._streak == self._most else "first" if self._streak == 1 else ""
