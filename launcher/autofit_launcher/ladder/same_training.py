"""A rung's certificate: what of its training was proven to be the asked one, and by what the rest differs. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from autofit_launcher.common.report import LEFT_AFTER, PASS_SAMPLES, SAID_ACCUMULATION, UPDATES, TrialReport
from autofit_launcher.common.sizes import format_number
from autofit_launcher.ladder.rungs import MICRO_BATCH, Ladder, Rung
from autofit_launcher.ladder.twins import Finding, FindingKind, Twin, ends_apart

PROVEN = "proven"
GIVEN_UP = "differs by what is given up"
"""The beginning of a line on sizes, lengths or a model that the person let be turned, which make another training."""
END_UNSEEN, COUNTED = "not comparable because its end was not reached", ": the run counts them"
_BATCH_NORM = "in batch norm, which takes its statistics from micro-batches"
_BY_HAND = "what its collate function draws for one row after another stood still; all else is the same"
BATCH_NORM = f"differs {_BATCH_NORM}; all else is the same"


@dataclass(frozen=True, kw_only=True, slots=True)
class SameTraining:
    """A rung's certificate. Each line is ``proven``, ``differs ...`` or ``not comparable because ...``."""

    __pydantic_config__ = {"extra": "ignore"}  # noqa: RUF012  # of another autofit's record
    gradient: str = PROVEN
    steps: str = PROVEN
    schedule: str = PROVEN
    samples: str = PROVEN
    verdict: str = FindingKind.SAME.value
    apart: float | None = None
    layouts: tuple[str, ...] = ()
    """The layouts that were compared, the asked one's first; empty where nothing of it is turned."""
    cure: Mapping[str, Any] = field(default_factory=dict)
    """Changes made to the asked command so that it is the same training."""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def lines(self) -> dict[str, str]:
        return {"gradient": self.gradient, "steps": self.steps, "schedule": self.schedule, "samples": self.samples}

    @property
    def proven(self) -> bool:
        return all(line == PROVEN for line in self.lines.values())

    @property
    def counted(self) -> bool:
        """True if all is proven but the number of its steps, whose end no twin came to, and the run's can be held against those due."""
        return self.steps.endswith(COUNTED) and list(self.unproven.values()) == ["steps"]

    @property
    def unproven(self) -> dict[str, str]:
        """Each line that isn't proven -> names of the parts that have it; without lines on what is given up, which is told anyway."""
        parts: dict[str, list[str]] = {}
        for name, line in self.lines.items():
            if line != PROVEN and not line.startswith(GIVEN_UP):
                parts.setdefault(line, []).append(name)
        return {line: ", ".join(names) for line, names in parts.items()}


def unproven(why: str) -> SameTraining:
    """Makes the certificate of a rung of which nothing could be compared."""
    line = f"not comparable because {why}"
    return SameTraining(gradient=line, steps=line, schedule=line, samples=line, verdict=FindingKind.UNCOMPARABLE.value)


def as_asked(ladder: Ladder, rung: Rung) -> SameTraining:
    """Makes the certificate of a rung whose optimizer step is put together as asked, save a batch that a person let go."""
    if rung.effective_batch == ladder.effective_batch:
        return SameTraining()
    line = f"differs by the effective batch: {rung.effective_batch} instead of {ladder.effective_batch}, as was accepted"
    return SameTraining(gradient=line, steps=line, samples=line, verdict=FindingKind.DIFFERENT.value)


def certificate(finding: Finding, first: Twin, other: Twin, *, told: str = "") -> SameTraining:
    """Gradient, steps, schedule and samples of a rung, one line each. ``told``: what the trainer's own accumulation makes differ."""
    layouts = first.layout, other.layout
    if finding.kind is FindingKind.UNCOMPARABLE:
        return replace(unproven(finding.why), layouts=layouts)
    same, by = finding.kind is FindingKind.SAME, f"differs by {finding.apart:.2g}" if finding.apart else "differs"
    verdict: FindingKind = finding.kind
    lines: dict[str, str] = {}
    if told:
        lines[finding.of] = f"{by} in {told}{f' and {_BATCH_NORM}' if first.batch_norm else ''}; all else is the same"
    elif not same:
        lines[finding.of] = f"{by}: {finding.why}"
    elif hidden := finding.why or (_BY_HAND if first.by_hand else ""):
        verdict, lines["gradient"] = FindingKind.UNCOMPARABLE, f"not comparable because {hidden}"
    elif first.batch_norm:
        lines["gradient"] = BATCH_NORM
    if not first.ended == other.ended == "exit":
        lines.setdefault("steps", _end(first, other))
    if apart := ends_apart(first, other):
        lines.setdefault("samples", f"differs at the end of each pass over the data, whose last optimizer step is a smaller one: {apart}")
    if first.unshown:
        lines.setdefault(
            "samples", "not comparable because the last optimizer step of a pass is a smaller one, which so few rows don't show"
        )
    if min(first.updates, other.updates) < 2:
        lines.setdefault("schedule", "not comparable because only one optimizer step was seen")
    return SameTraining(verdict=verdict.value, apart=finding.apart, layouts=layouts, **lines)  # type: ignore[arg-type]


def _end(first: Twin, other: Twin) -> str:
    for twin in (first, other):
        if twin.ended == "failed":
            return f"not comparable because it failed at {twin.layout}: {twin.why}"
    return f"{END_UNSEEN} in {min(first.updates, other.updates)} optimizer steps{COUNTED}"


NEUTRAL = frozenset({MICRO_BATCH, "checkpointing", "workers"})
"""Wheels that don't change the training, in addition to those that act only in validation."""


def given_up(ladder: Ladder, rung: Rung) -> str:
    """Names what the rung changes in the training itself (sizes, lengths, models), in words; not how its batch is made up."""
    acts_in = {wheel.name: wheel.acts_in for wheel in ladder.wheels}
    turned = {
        name: pair for name, pair in ladder.given_up(rung).items() if name not in NEUTRAL and acts_in[name] not in ("validation", "host")
    }
    return ", ".join(f"{name} {used} instead of {asked}" for name, (asked, used) in turned.items())


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

    @property
    def words(self) -> str:
        return str(self.most) if self.least == self.most else f"{self.least} to {self.most}"


def due(report: TrialReport, rung: Rung, length: Length | None) -> Due | None:
    """Steps that the asked configuration makes, by a trial of ``rung``, which makes as many; None if unknown. A number that its trainer
    has calculated with less accumulation than the rung's doesn't count."""
    facts, batch = report.facts, rung.effective_batch
    updates = _count(facts.get(UPDATES)) if facts.get(SAID_ACCUMULATION) == rung.accumulation else None
    samples = facts.get(LEFT_AFTER, 0) * rung.micro_batch or _count(facts.get(PASS_SAMPLES)) or report.train_samples
    if updates is not None:
        return Due(least=updates, most=updates, by="its trainer's own reckoning", sure=True)
    if length is not None and length.updates is not None:  # loops that count from 0 to it make one more
        return Due(least=length.updates, most=length.updates + 1, by=f"{length.word} {length.updates}", sure=False)
    if length is None or length.passes is None or not samples or batch < 1:
        return None
    least, most = max(samples // batch, 1), math.ceil(samples / batch)
    by = f"{length.word} {format_number(length.passes)} over {samples} samples"
    return Due(least=math.floor(least * length.passes), most=math.ceil(most * length.passes), by=by, sure=False)


def _count(said: Any) -> int | None:
    return said if isinstance(said, int) and not isinstance(said, bool) and said > 0 else None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSteps:
    """Optimizer steps of a run that came to its end, against those due."""

    __pydantic_config__ = {"extra": "ignore"}  # noqa: RUF012
    made: int = 0
    due: tuple[int, int] = (0, 0)
    """The least and the most steps that are due."""
    due_by: str = ""
    line: str = ""
    """The line of the certificate on steps."""
    otherwise: bool = False
    """True: it is another training than asked. False: steps are as due, or it ended early by itself (a patience, its own limit)."""


def judged(made: int, due: Due, *, times: float, same: SameTraining, stopped: str = "") -> RunSteps:
    """Compares a run's steps with those due.

    ``times``: how many times as much its rung accumulates as asked. ``same``: its certificate, which may have shown that it makes as many.
    ``stopped``: the line in which it says that it stopped early.

    Fewer steps alone aren't another training, since trainings stop early. But 1/k of them at a rung that accumulates k times as much is,
    unless the number was proven or the run says that it stopped early.
    """
    steps = RunSteps(made=made, due=(due.least, due.most), due_by=due.by, line=PROVEN)
    if due.least <= made <= due.most:
        return steps
    apart = due.least - made if made < due.least else made - due.most
    more = made > due.most and (due.sure or _by_accumulation(made, due, times))
    if more or (made < due.least and not (same.steps == PROVEN or stopped) and _by_accumulation(made, due, times)):
        line = f"differs by {apart}: the run made {made} optimizer steps, {due.words} are due by {due.by}"
        return replace(steps, line=line, otherwise=True)
    said = f": it says “{stopped}”" if stopped else ""
    return replace(steps, line=f"not comparable because the run made {made} optimizer steps where {due.words} are due by {due.by}{said}")


def with_steps(same: SameTraining, made: RunSteps) -> SameTraining:
    """The certificate after a whole run. A run that ended early doesn't undo what was proven, or known to differ, before."""
    known = same.steps == PROVEN or same.steps.startswith("differs")
    return replace(same, steps=made.line) if made.otherwise or not known else same


def _by_accumulation(made: int, due: Due, times: float) -> bool:
    """Tells whether the run made k times the steps due, or 1/k of them."""
    if times <= 1:
        return False
    ranges = ((due.least * times, due.most * times), (due.least / times, due.most / times))
    return any(math.floor(least) <= made <= math.ceil(most) for least, most in ranges)
