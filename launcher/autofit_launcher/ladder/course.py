"""The length of a training: optimizer steps due by what was asked, against those a run has counted; and what a rung gives up. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from autofit_launcher.ladder.rungs import MICRO_BATCH, Ladder, Rung
from autofit_launcher.ladder.same_training import PROVEN, SameTraining
from autofit_launcher.shared.report import PASS_SAMPLES, SAID_ACCUMULATION, UPDATES, TrialReport
from autofit_launcher.shared.sizes import format_number

NEUTRAL = frozenset({MICRO_BATCH, "checkpointing", "workers"})
"""Wheels that don't change the training, in addition to those that act only in validation."""


def given_up(ladder: Ladder, rung: Rung) -> str:
    """Names what the rung changes in the training itself (sizes, lengths, models), in words; not how its batch is made up."""
    acts_in = {wheel.name: wheel.acts_in for wheel in ladder.wheels}
    turned = {
        name: pair for name, pair in ladder.given_up(rung).items() if name not in NEUTRAL and acts_in[name] not in ("validation", "host")
    }
    return ", ".join(f"{name} {used} instead of {asked}" for name, (asked, used) in turned.items())


# ----------------------------------------------------------------------------------------------------------------------
# A run against what was due


@dataclass(frozen=True, kw_only=True, slots=True)
class Length:
    """The length of a training by its own arguments: passes over the data, or optimizer steps."""

    word: str
    passes: float | None = None
    updates: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """Optimizer steps that the asked configuration makes: a range, since ends of passes may round up or down."""

    least: int
    most: int
    by: str
    """The source of the number, in words for people."""
    sure: bool
    """True: the trainer itself has calculated it. False: it follows from the command's arguments."""
    of_passes: bool = False
    """True: the number follows from passes over the data, which can't count micro-batches."""

    @property
    def words(self) -> str:
        return str(self.most) if self.least == self.most else f"{self.least} to {self.most}"


def due(report: TrialReport, rung: Rung, length: Length | None) -> Due | None:
    """Steps that the asked configuration makes, by a trial of ``rung``, which makes as many; None if unknown. A number that its trainer
    has calculated with less accumulation than the rung's doesn't count."""
    facts, batch = report.facts, rung.effective_batch
    updates = _count(facts.get(UPDATES)) if facts.get(SAID_ACCUMULATION) == rung.accumulation else None
    samples = _count(facts.get(PASS_SAMPLES)) or report.train_samples
    if updates is not None:
        return Due(least=updates, most=updates, by="its trainer's own reckoning", sure=True)
    if length is not None and length.updates is not None:  # loops that count from 0 to it make one more
        return Due(least=length.updates, most=length.updates + 1, by=f"{length.word} {length.updates}", sure=False)
    if length is None or length.passes is None or not samples or batch < 1:
        return None
    least, most = max(samples // batch, 1), math.ceil(samples / batch)
    by = f"{length.word} {format_number(length.passes)} over {samples} samples"
    return Due(least=math.floor(least * length.passes), most=math.ceil(most * length.passes), by=by, sure=False, of_passes=True)


def _count(said: Any) -> int | None:
    return said if isinstance(said, int) and not isinstance(said, bool) and said > 0 else None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSteps:
    """Optimizer steps of a run that came to its end."""

    made: int
    due: Due
    line: str
    """The line of the certificate on steps."""
    otherwise: bool
    """True: it is another training than asked. False: steps are as due, or it ended early by itself (a patience, its own limit)."""

    def as_record(self) -> dict[str, Any]:
        return {"made": self.made, "due": [self.due.least, self.due.most], "due_by": self.due.by, "line": self.line}


def judged(made: int, due: Due, *, times: float, same: SameTraining, stopped: str = "") -> RunSteps:
    """Compares a run's steps with those due.

    ``times``: how many times as much its rung accumulates as asked. ``same``: its certificate, which may have shown that it makes as many.
    ``stopped``: the line in which it says that it stopped early.

    Fewer steps alone aren't another training, since trainings stop early. But 1/k of them at a rung that accumulates k times as much is,
    unless the number was proven or the run says that it stopped early.
    """
    if due.least <= made <= due.most:
        return RunSteps(made=made, due=due, line=PROVEN, otherwise=False)
    proven = same.steps == PROVEN or (due.of_passes and same.samples == PROVEN)
    apart = due.least - made if made < due.least else made - due.most
    more = made > due.most and (due.sure or _by_accumulation(made, due, times))
    if more or (made < due.least and not (proven or stopped) and _by_accumulation(made, due, times)):
        line = f"differs by {apart}: the run made {made} optimizer steps, {due.words} are due by {due.by}"
        return RunSteps(made=made, due=due, line=line, otherwise=True)
    early = f"it says “{stopped}”" if stopped else "it ended by itself before its length"
    what = early if made < due.least else "what its words count isn't known"
    line = f"not comparable because the run made {made} optimizer steps where {due.words} are due by {due.by}: {what}"
    return RunSteps(made=made, due=due, line=line, otherwise=False)


def with_steps(same: SameTraining, made: RunSteps) -> SameTraining:
    """The certificate after a whole run. A run that ended early doesn't undo what was proven, or known to differ, before."""
    if made.otherwise or (made.line == PROVEN and not same.steps.startswith("differs")):
        return replace(same, steps=made.line)
    return same if same.steps == PROVEN or made.line == PROVEN or same.steps.startswith("differs") else replace(same, steps=made.line)


def _by_accumulation(made: int, due: Due, times: float) -> bool:
    """Tells whether the run made k times the steps due, or 1/k of them."""
    if times <= 1:
        return False
    ranges = ((due.least * times, due.most * times), (due.least / times, due.most / times))
    return any(math.floor(least) <= made <= math.ceil(most) for least, most in ranges)
