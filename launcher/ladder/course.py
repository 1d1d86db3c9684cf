"""Compares a training's course (optimizer steps, samples, when it evaluates and saves) with the asked one. Pure.

Rung 0's trial shows what was asked. A rung's own trial, and the full run at its end, are compared with it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from launcher.config.schema import Value, WheelRule
from launcher.ladder.rungs import CARDS, MICRO_BATCH, Ladder, Rung
from launcher.ladder.same_training import GIVEN_UP, PROVEN, SameTraining
from launcher.shared.report import EVALUATES_EVERY, PASS_SAMPLES, SAID_ACCUMULATION, SAVES_EVERY, UPDATES, TrialReport
from launcher.shared.sizes import format_number

ANOTHER = 0.05
"""Fraction of the asked steps or samples by which a number may differ; beyond it is another training, below it rounding at the ends of
passes."""
NEUTRAL = frozenset({MICRO_BATCH, CARDS, "checkpointing", "workers"})
"""Wheels that don't change the training, in addition to those that act only in validation."""
_OPTIMIZERS = frozenset(("optimizer", "optim", "opt", "adam", "adamw"))
_ADDITIONS = frozenset(("lora", "qlora", "dora", "peft", "adapters", "quantization", "4bit", "8bit", "nf4"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Course:
    """What a trial shows of the whole training. None: it doesn't show that."""

    updates: int | None = None
    """Optimizer steps in all, as the trainer has calculated them."""
    samples: int | None = None
    """Samples in a pass over the data."""
    points: Mapping[str, float] | None = None
    """evaluation or checkpoint -> optimizer steps from one to the next, of those that are counted in steps."""


def shown(report: TrialReport, rung: Rung) -> Course:
    """What the trial of ``rung`` shows. Numbers that its trainer calculated with less accumulation than the rung's don't count."""
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


def given_up(ladder: Ladder, rung: Rung, rules: Mapping[str, WheelRule] | None = None) -> str:
    """What the rung changes in the training itself (sizes, lengths, models), in words; not how its batch is made up."""
    acts_in = {wheel.name: wheel.acts_in for wheel in ladder.wheels}
    turned = {
        name: pair for name, pair in ladder.given_up(rung).items() if name not in NEUTRAL and acts_in[name] not in ("validation", "host")
    }
    rules = rules or {}
    return ", ".join(f"{name} {used} instead of {asked}{mark(another(name, rules))}" for name, (asked, used) in turned.items())


def another(name: str, rules: Mapping[str, WheelRule]) -> bool:
    """Whether a wheel, by its name or the argument that it turns, trains others than the asked weights (LoRA, weights of 4 bits)."""
    rule = rules.get(name)
    said = set(re.split(r"[^a-z0-9]+", f"{name} {rule.argument or '' if rule is not None else ''}".lower()))
    return bool(said & _ADDITIONS) and not said & _OPTIMIZERS  # --use_8bit_adam is an optimizer


def mark(is_another: object) -> str:
    """The words beside a wheel that makes it another training; empty beside others."""
    return " (another training, not the same one cheaper)" if is_another else ""


def recorded(ladder: Ladder, rung: Rung, rules: Mapping[str, WheelRule]) -> dict[str, dict[str, Value]]:
    """What a rung gives up, as a record has it: wheel -> ``asked`` and ``used``, and ``another_training`` where it makes it one."""
    less = ladder.given_up(rung).items()
    marks = {name: {"another_training": True} if another(name, rules) else {} for name, _ in less}
    return {name: {"asked": asked, "used": used, **marks[name]} for name, (asked, used) in less}


def held_against(same: SameTraining, tried: Course, asked: Course, *, batch: int, less: str = "") -> SameTraining:
    """The certificate, with what the rung's trial showed to differ from rung 0's.

    ``batch``: samples per optimizer step, as asked. ``less``: what the rung gives up, in words.
    """
    if less and same.gradient == PROVEN:
        same = replace(same, gradient=f"{GIVEN_UP}: {less}")
    if "counts" not in same.cure:  # what puts a length right isn't in the trial yet
        same = _with_samples(_with_steps_in_all(same, tried, asked), tried, asked, batch=batch)
    if (points := _points(tried, asked)) and not same.schedule.startswith("differs"):
        same = replace(same, schedule=points)
    return same


def _with_samples(same: SameTraining, tried: Course, asked: Course, *, batch: int) -> SameTraining:
    """If a pass has another number of samples there are other steps, too, unless the trainer has calculated those."""
    if tried.samples is None or asked.samples is None or abs(tried.samples - asked.samples) < batch:
        return same
    words = f"a pass over the data takes {tried.samples} samples at this rung, {asked.samples} as asked"
    if not same.steps.startswith("differs") and None in (tried.updates, asked.updates):
        same = replace(same, steps="differs as the samples of a pass do")
    return same if same.samples.startswith("differs") else replace(same, samples=f"differs by their number: {words}")


def _with_steps_in_all(same: SameTraining, tried: Course, asked: Course) -> SameTraining:
    """By the number of steps that the trainer itself has calculated, which decides."""
    if tried.updates is None or asked.updates is None:
        return same
    if tried.updates == asked.updates:
        return same if same.steps.startswith("differs") else replace(same, steps=PROVEN)
    apart = abs(tried.updates - asked.updates)
    return replace(same, steps=f"differs by {apart}: {tried.updates} optimizer steps in all at this rung, {asked.updates} as asked")


def _points(tried: Course, asked: Course) -> str:
    """What is evaluated or saved at other optimizer steps than asked, in words."""
    for name, every in (asked.points or {}).items():
        got = (tried.points or {}).get(name)
        if got is not None and got != every:
            return f"differs by its {name}s: one every {got:g} optimizer steps, every {every:g} as asked"
    return ""


def refusal(same: SameTraining, tried: Course, asked: Course, *, batch: int, less: str = "") -> str:
    """Why the rung's trial shows it to be another training, beyond what it gives up; empty if it may be launched."""
    if less or "counts" in same.cure:
        return ""
    if _apart(tried.updates, asked.updates, least=2):
        return f"it would make {tried.updates} optimizer steps in all, {asked.updates} as asked"
    if _apart(tried.samples, asked.samples, least=batch):
        return f"a pass over the data takes {tried.samples} samples, {asked.samples} as asked"
    return ""


def _apart(tried: int | None, asked: int | None, *, least: int) -> bool:
    """Whether two numbers differ by more than the ends of passes explain."""
    return tried is not None and asked is not None and abs(tried - asked) >= max(ANOTHER * asked, least)


# ----------------------------------------------------------------------------------------------------------------------
# A run against what was due


@dataclass(frozen=True, kw_only=True, slots=True)
class Length:
    """How long a training is by its own arguments: passes over the data, or optimizer steps."""

    word: str
    passes: float | None = None
    updates: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """Optimizer steps that the asked configuration makes: a range, since ends of passes may round up or down."""

    least: int
    most: int
    by: str
    """For people: how that is known."""
    sure: bool
    """True: the trainer itself has calculated it. False: it follows from the command's arguments."""
    of_passes: bool = False
    """It follows from a number of passes over the data, which can't count micro-batches."""

    @property
    def words(self) -> str:
        return str(self.most) if self.least == self.most else f"{self.least} to {self.most}"


def due(asked: Course, *, batch: int, length: Length | None) -> Due | None:
    """Steps that the asked configuration makes; None if unknown. ``batch``: samples per optimizer step."""
    if asked.updates is not None:
        return Due(least=asked.updates, most=asked.updates, by="its trainer's own reckoning", sure=True)
    if length is not None and length.updates is not None:  # loops that count from 0 to it make one more
        return Due(least=length.updates, most=length.updates + 1, by=f"{length.word} {length.updates}", sure=False)
    if length is None or length.passes is None or asked.samples is None or batch < 1:
        return None
    least, most = max(asked.samples // batch, 1), math.ceil(asked.samples / batch)
    by = f"{length.word} {format_number(length.passes)} over {asked.samples} samples"
    return Due(least=math.floor(least * length.passes), most=math.ceil(most * length.passes), by=by, sure=False, of_passes=True)


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


def judged(made: int, due: Due, *, times: float, proven: bool = False, stopped: str = "") -> RunSteps:
    """Compares a run's steps with those due.

    ``times``: how many times as much its rung accumulates as asked. ``proven``: twins, or the trainer's own number, showed that it makes
    as many steps. ``stopped``: the line in which it says that it stopped early.

    Fewer steps alone aren't another training, since trainings stop early. But 1/k of them at a rung that accumulates k times as much is,
    unless the number was proven or the run says that it stopped early.
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
    """Whether a rung was proven to make the steps due: by their number, or by the samples of a pass if passes give the length."""
    return same.steps == PROVEN or (due.of_passes and same.samples == PROVEN)


def with_steps(same: SameTraining, made: RunSteps) -> SameTraining:
    """The certificate after a whole run. A run that ended early doesn't undo what was proven, or known to differ, before."""
    if made.otherwise or (made.line == PROVEN and not same.steps.startswith("differs")):
        return replace(same, steps=made.line)
    return same if same.steps == PROVEN or made.line == PROVEN or same.steps.startswith("differs") else replace(same, steps=made.line)


def _by_accumulation(made: int, due: Due, times: float) -> bool:
    """Whether the run made k times the steps due, or 1/k of them."""
    if times <= 1:
        return False
    ranges = ((due.least * times, due.most * times), (due.least / times, due.most / times))
    return any(math.floor(least) <= made <= math.ceil(most) for least, most in ranges)


def too_many(made: int, due: Due, *, times: float) -> bool:
    """Whether a running run has already made too many steps to be the asked training."""
    return made > due.most if due.sure else times > 1 and made > due.most * (1 + times) / 2
