"""Holds a training's whole course (optimizer steps, samples, evaluation and saving points) against the asked one. Pure.

Rung 0's trial shows what was asked. A rung's own trial, and the full run at its end, are held against it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from launcher.ladder.rungs import MICRO_BATCH, Ladder, Rung
from launcher.ladder.same_training import GIVEN_UP, PROVEN, SameTraining
from launcher.shared.report import EVALUATES_EVERY, PASS_SAMPLES, SAID_ACCUMULATION, SAVES_EVERY, UPDATES, TrialReport

ANOTHER = 0.05
"""Part of the asked steps, or samples, from which another number of them is another training; less is rounding at the end of passes."""
NEUTRAL = frozenset({MICRO_BATCH, "checkpointing", "workers"})
"""Wheels that leave a training what it is, beside those that act in validation only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Course:
    """What a trial shows of the whole training; None is what it doesn't show."""

    updates: int | None = None
    """Optimizer steps in all, by the trainer's own reckoning."""
    samples: int | None = None
    """Of a pass over the data."""
    points: Mapping[str, float] | None = None
    """evaluation or checkpoint -> optimizer steps from one to the next, of those that are counted in steps."""


def shown(report: TrialReport, rung: Rung) -> Course:
    """What the trial of ``rung`` shows. What its trainer reckoned with less accumulation than the rung's says nothing of the rung."""
    facts = report.facts
    as_told = facts.get(SAID_ACCUMULATION) == rung.accumulation
    points = {"evaluation": facts.get(EVALUATES_EVERY), "checkpoint": facts.get(SAVES_EVERY)}
    return Course(
        updates=_count(facts.get(UPDATES)) if as_told else None,
        samples=_count(facts.get(PASS_SAMPLES)) or report.train_samples or None,
        points={name: float(every) for name, every in points.items() if isinstance(every, (int, float)) and every > 0} if as_told else None,
    )


def _count(said: Any) -> int | None:
    return said if isinstance(said, int) and not isinstance(said, bool) and said > 0 else None


# ----------------------------------------------------------------------------------------------------------------------
# A rung's trial against the asked one


def given_up(ladder: Ladder, rung: Rung) -> str:
    """What of the training itself the rung gives up, in words: sizes, lengths, models; not how its batch is put together."""
    acts_in = {wheel.name: wheel.acts_in for wheel in ladder.wheels}
    turned = {name: pair for name, pair in ladder.given_up(rung).items() if name not in NEUTRAL and acts_in[name] != "validation"}
    return ", ".join(f"{name} {used} instead of {asked}" for name, (asked, used) in turned.items())


def held_against(same: SameTraining, tried: Course, asked: Course, *, batch: int, less: str = "") -> SameTraining:
    """A rung's certificate with what its trial showed otherwise than rung 0's. ``batch``: samples of an optimizer step, as asked;
    ``less``: what the rung gives up."""
    if less and same.gradient == PROVEN:
        same = replace(same, gradient=f"{GIVEN_UP}: {less}")
    if "counts" not in same.cure:  # what puts a length right isn't in the trial yet
        same = _with_samples(_with_steps_in_all(same, tried, asked), tried, asked, batch=batch)
    if (points := _points(tried, asked)) and not same.schedule.startswith("differs"):
        same = replace(same, schedule=points)
    return same


def _with_samples(same: SameTraining, tried: Course, asked: Course, *, batch: int) -> SameTraining:
    """Where passes take other samples there are other steps, too, unless those were reckoned."""
    if tried.samples is None or asked.samples is None or abs(tried.samples - asked.samples) < batch:
        return same
    words = f"a pass over the data takes {tried.samples} samples at this rung, {asked.samples} as asked"
    if not same.steps.startswith("differs") and None in (tried.updates, asked.updates):
        same = replace(same, steps="differs as the samples of a pass do")
    return same if same.samples.startswith("differs") else replace(same, samples=f"differs by their number: {words}")


def _with_steps_in_all(same: SameTraining, tried: Course, asked: Course) -> SameTraining:
    """By the trainer's own reckoning, which is the last word."""
    if tried.updates is None or asked.updates is None:
        return same
    if tried.updates == asked.updates:
        return same if same.steps.startswith("differs") else replace(same, steps=PROVEN)
    apart = abs(tried.updates - asked.updates)
    return replace(same, steps=f"differs by {apart}: {tried.updates} optimizer steps in all at this rung, {asked.updates} as asked")


def _points(tried: Course, asked: Course) -> str:
    """What is evaluated or saved at other optimizer steps than asked."""
    for name, every in (asked.points or {}).items():
        got = (tried.points or {}).get(name)
        if got is not None and got != every:
            return f"differs by its {name}s: one every {got:g} optimizer steps, every {every:g} as asked"
    return ""


def refusal(same: SameTraining, tried: Course, asked: Course, *, batch: int, less: str = "") -> str:
    """Why a rung is another training by its own trial, where nothing that it gives up explains that; empty where it may be launched."""
    if less or "counts" in same.cure:
        return ""
    if _apart(tried.updates, asked.updates, least=2):
        return f"it would make {tried.updates} optimizer steps in all, {asked.updates} as asked"
    if _apart(tried.samples, asked.samples, least=batch):
        return f"a pass over the data takes {tried.samples} samples, {asked.samples} as asked"
    return ""


def _apart(tried: int | None, asked: int | None, *, least: int) -> bool:
    """Whether they differ by more than the ends of passes do."""
    return tried is not None and asked is not None and abs(tried - asked) >= max(ANOTHER * asked, least)


# ----------------------------------------------------------------------------------------------------------------------
# A run against what was due


@dataclass(frozen=True, kw_only=True, slots=True)
class Length:
    """How long a training is by its own words: passes over the data, or optimizer steps."""

    word: str
    passes: float | None = None
    updates: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """Optimizer steps that the asked configuration makes. Ends of passes round up or down, so that there may be a range of them."""

    least: int
    most: int
    by: str
    """By what that is known."""
    sure: bool
    """The trainer reckons so itself; False: it is worked out of the command's words."""
    of_passes: bool = False
    """By passes over the data, which a script doesn't count in micro-batches."""

    @property
    def words(self) -> str:
        return str(self.most) if self.least == self.most else f"{self.least} to {self.most}"


def due(asked: Course, *, batch: int, length: Length | None) -> Due | None:
    """What the asked configuration makes; None where nobody knows. ``batch``: samples of an optimizer step."""
    if asked.updates is not None:
        return Due(least=asked.updates, most=asked.updates, by="its trainer's own reckoning", sure=True)
    if length is not None and length.updates is not None:  # loops that count from 0 to it make one more
        return Due(least=length.updates, most=length.updates + 1, by=f"{length.word} {length.updates}", sure=False)
    if length is None or length.passes is None or asked.samples is None or batch < 1:
        return None
    least, most = max(asked.samples // batch, 1), math.ceil(asked.samples / batch)
    by = f"{length.word} {length.passes:g} over {asked.samples} samples"
    return Due(least=math.floor(least * length.passes), most=math.ceil(most * length.passes), by=by, sure=False, of_passes=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSteps:
    """Optimizer steps of a run that came to its end."""

    made: int
    due: Due
    line: str
    """Of its certificate."""
    otherwise: bool
    """It is another training than asked; False: as due, or ended before its length by itself (a patience, a limit of its own)."""

    def as_record(self) -> dict[str, Any]:
        return {"made": self.made, "due": [self.due.least, self.due.most], "due_by": self.due.by, "line": self.line}


def judged(made: int, due: Due, *, times: float, proven: bool = False, stopped: str = "") -> RunSteps:
    """A run's steps against those due. ``times``: how much more its rung accumulates than was asked; ``proven``: twins, or the trainer's
    own reckoning, have shown that it makes as many; ``stopped``: its words that it stopped early.

    Fewer than due isn't another training by itself: trainings stop early. A k-th of them, at a rung that accumulates k times as much, is,
    unless it was proven or the run says that it stopped early.
    """
    if due.least <= made <= due.most:
        return RunSteps(made=made, due=due, line=PROVEN, otherwise=False)
    apart = due.least - made if made < due.least else made - due.most
    more = made > due.most and (due.sure or _by_accumulation(made, due, times))
    if more or (made < due.least and not (proven or stopped) and _by_accumulation(made, due, times)):
        line = f"differs by {apart}: the run made {made} optimizer steps, {due.words} are due by {due.by}"
        return RunSteps(made=made, due=due, line=line, otherwise=True)
    early = f"it says “{stopped}”" if stopped else "it ended by itself before its length"
    what = early if made < due.least else "what its words count isn't known"
    line = f"not comparable because the run made {made} optimizer steps where {due.words} are due by {due.by}: {what}"
    return RunSteps(made=made, due=due, line=line, otherwise=False)


def makes_as_many(same: SameTraining, due: Due) -> bool:
    """Whether it was proven that a rung makes the steps due, unless it stops early: by their number, or by the samples of a pass where
    passes say the length."""
    return same.steps == PROVEN or (due.of_passes and same.samples == PROVEN)


def with_steps(same: SameTraining, made: RunSteps) -> SameTraining:
    """A rung's certificate after a whole run of it. What was proven, or known to differ, before isn't undone by a run that ended early."""
    if made.otherwise or (made.line == PROVEN and not same.steps.startswith("differs")):
        return replace(same, steps=made.line)
    return same if same.steps == PROVEN or made.line == PROVEN or same.steps.startswith("differs") else replace(same, steps=made.line)


def _by_accumulation(made: int, due: Due, times: float) -> bool:
    """Whether it is k times as many, or a k-th."""
    if times <= 1:
        return False
    ranges = ((due.least * times, due.most * times), (due.least / times, due.most / times))
    return any(math.floor(least) <= made <= math.ceil(most) for least, most in ranges)


def too_many(made: int, due: Due, *, times: float) -> bool:
    """Whether a run that goes on has made so many steps already that it can't be the asked training."""
    return made > due.most if due.sure else times > 1 and made > due.most * (1 + times) / 2
