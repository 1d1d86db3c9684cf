"""A rung's certificate: what of its training was proven to be the asked one, and by what the rest differs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from launcher.ladder.rungs import Ladder, Rung
from launcher.ladder.twins import Finding, FindingKind, Twin, rates_to_come, settings_apart, unshared

BESIDE = 5e-2
"""Distance up to which what is kept of the weights is the same: the first twin's own distance to the weights is small, too."""
PROVEN = "proven"
ENDS = "at the end of each pass over the data"
SCHEDULED = "not comparable because it isn't stepped with the optimizer: "
GIVEN_UP = "differs by what is given up"
"""How a line begins of what a rung's lesser sizes, lengths or model make another training: the person let them be turned."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SameTraining:
    """A rung's certificate. Each line is ``proven``, ``differs by ...`` or ``not comparable because ...``."""

    gradient: str = PROVEN
    steps: str = PROVEN
    schedule: str = PROVEN
    samples: str = PROVEN
    verdict: str = FindingKind.SAME.value
    apart: float | None = None
    layouts: tuple[str, ...] = ()
    """Those that were compared, the asked one's first; empty where nothing of it is turned."""
    cure: Mapping[str, Any] = field(default_factory=dict)
    """What was done to the asked command so that it is the same."""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def lines(self) -> dict[str, str]:
        return {"gradient": self.gradient, "steps": self.steps, "schedule": self.schedule, "samples": self.samples}

    @property
    def proven(self) -> bool:
        return all(line == PROVEN for line in self.lines.values())

    @property
    def unproven(self) -> dict[str, str]:
        """What a line says that isn't proven -> the parts it is of, in words. What the rung gives up isn't: it is told anyway."""
        parts: dict[str, list[str]] = {}
        for name, line in self.lines.items():
            if line != PROVEN and not line.startswith(GIVEN_UP):
                parts.setdefault(line, []).append(name)
        return {line: ", ".join(names) for line, names in parts.items()}

    def as_record(self) -> dict[str, Any]:
        return {
            **self.lines, "verdict": self.verdict, "apart": self.apart, "layouts": list(self.layouts), "cure": dict(self.cure),
            "notes": list(self.notes), "seconds": round(self.seconds, 3),
        }  # fmt: skip

    @classmethod
    def from_record(cls, said: Mapping[str, Any]) -> SameTraining:
        said = {key: value for key, value in said.items() if key not in ("refused", "update")}
        return cls(**{**said, "layouts": tuple(said.get("layouts", ())), "notes": tuple(said.get("notes", ()))})


def unproven(why: str) -> SameTraining:
    """Nothing could be compared."""
    line = f"not comparable because {why}"
    return SameTraining(gradient=line, steps=line, schedule=line, samples=line, verdict=FindingKind.UNCOMPARABLE.value)


def as_asked(ladder: Ladder, rung: Rung) -> SameTraining:
    """Of a rung whose optimizer step is put together as asked: nothing of it is turned, save a batch that a person let go."""
    if rung.effective_batch == ladder.effective_batch:
        return SameTraining()
    line = f"differs by the effective batch: {rung.effective_batch} instead of {ladder.effective_batch}, as was accepted"
    return SameTraining(gradient=line, steps=line, samples=line, verdict=FindingKind.SAMPLES.value)


# ----------------------------------------------------------------------------------------------------------------------
# Of twins


def certificate(finding: Finding, first: Twin, others: Sequence[Twin]) -> SameTraining:
    """Gradient, steps, schedule and samples of a rung, one line each."""
    gradient = _gradient_line(finding)
    if finding.kind is FindingKind.SAME and (beside := max(other.beside for other in others)) > BESIDE:
        kept = "what is kept of the weights beside them (a moving average that moves with every micro-batch)"
        gradient = f"differs by {beside:.2g} in {kept}; the update itself is the same"
    if finding.kind is FindingKind.UNCOMPARABLE:
        line = f"not comparable because {finding.why}"
        steps = schedule = samples = line
    else:
        last = max(others, key=lambda other: other.accumulation)
        steps, schedule, samples = _steps_line(first, last), _schedule_line(first, others), _samples_line(finding)
    if finding.other_rows:
        gradient, samples = (f"not comparable because {finding.other_rows}" if line == PROVEN else line for line in (gradient, samples))
    if samples == PROVEN and (why := unshared(first)):
        samples = f"not comparable because {why}; its update is that of the command as it stands"
    layouts = tuple(twin.layout for twin in (first, *others))
    return SameTraining(
        gradient=gradient, steps=steps, schedule=schedule, samples=samples, verdict=finding.kind.value, apart=finding.apart, layouts=layouts
    )


def but_for_batch_norm(same: SameTraining, apart: float | None, twins: Sequence[Twin], *, own: str = "") -> SameTraining:
    """A certificate of twins whose batch norm stood still, with by how much it differs as it trains. ``own``: what else the trainer's own
    accumulation makes differ."""
    layouts = " and ".join(twin.layout for twin in twins)
    if apart is None:
        return replace(same, gradient="not comparable because batch norm could not be run on so few rows; all else is the same")
    what = "in batch norm alone" if not own else f"in {own} and in batch norm"
    line = f"differs by {apart:.2g} {what} ({layouts}), which takes its statistics from micro-batches; all else is the same"
    return replace(same, gradient=line)


def but_for_the_last_step(same: SameTraining, found: Finding, first: Twin, other: Twin) -> SameTraining:
    """A certificate of twins whose passes end with a whole optimizer step, after two whose passes don't."""
    ends = f"{ENDS}, whose last optimizer step is a smaller one"
    if found.kind is FindingKind.UNCOMPARABLE:
        return replace(same, samples=f"not comparable {ends}, because {found.why}")
    if found.kind is not FindingKind.SAME:
        otherwise = "it weighs its micro-batches otherwise than the large batch does"
        why = otherwise if found.kind in (FindingKind.DIFFERENT, FindingKind.SCALE) else found.why
        return replace(same, samples=f"differs by {found.apart or 0:.2g} {ends}: {why}")
    if first.ended == other.ended == "exit" and first.updates != other.updates:
        steps = f"{other.updates} steps at {other.layout} in all, {first.updates} at {first.layout}"
        return replace(same, steps=f"differs by {abs(other.updates - first.updates)} {ends}: {steps}")
    return same


def with_exact(same: SameTraining, finding: Finding) -> SameTraining:
    """A certificate, after twins that differ by a wheel alone that is to change no gradient."""
    return same if finding.kind is FindingKind.SAME else replace(same, gradient=_gradient_line(finding), verdict=finding.kind.value)


def with_earlier_cure(same: SameTraining, earlier: SameTraining) -> SameTraining:
    """A certificate of twins that had what an earlier one names as its cure."""
    notes = tuple(note for note in earlier.notes if note not in same.notes)
    return replace(same, cure={**earlier.cure, **same.cure}, notes=(*notes, *same.notes))


def ends_otherwise(same: SameTraining) -> str:
    """How passes over the data end otherwise than asked, as a certificate has it; empty where they don't."""
    return next((line for line in (same.samples, same.steps) if line != PROVEN and ENDS in line), "")


def scheduled_otherwise(same: SameTraining) -> str:
    """Why learning rates of later steps may be others, as a certificate has it; empty where they aren't."""
    return same.schedule.removeprefix(SCHEDULED) if same.schedule.startswith(SCHEDULED) else ""


def evaluated_otherwise(first: Twin, other: Twin) -> str:
    """How two twins that came to their own ends, after as many optimizer steps, evaluated at other points; empty where they didn't."""
    if not (first.ended == other.ended == "exit" and first.updates == other.updates) or first.evaluations == other.evaluations:
        return ""
    times = f"{other.evaluations} times at {other.layout}, {first.evaluations} at {first.layout}"
    return f"differs by its evaluations: in {first.updates} optimizer steps it evaluated {times}"


def _gradient_line(finding: Finding) -> str:
    if finding.kind is FindingKind.SAME:
        return PROVEN
    if finding.kind in (FindingKind.UNCOMPARABLE, FindingKind.SAMPLES, FindingKind.PASSES, FindingKind.SETTINGS):
        return f"not comparable because {finding.why}"
    return f"differs by {finding.apart or 0:.2g}: {finding.why}"


def _steps_line(first: Twin, last: Twin) -> str:
    if first.ended == last.ended == "exit":
        if first.updates == last.updates:
            return PROVEN
        apart = abs(last.updates - first.updates)
        return f"differs by {apart}: {last.updates} optimizer steps at {last.layout}, {first.updates} at {first.layout}"
    for twin in (first, last):
        if twin.ended == "failed":
            return f"not comparable because it failed at {twin.layout}: {twin.why}"
    return f"not comparable because its end was not reached in {min(first.updates, last.updates)} optimizer steps"


def _schedule_line(first: Twin, others: Sequence[Twin]) -> str:
    found = next((one for other in others if (one := settings_apart(first, other)) is not None), None)
    if found is not None:
        return f"differs by {found.why}"
    if later := next((why for other in others if (why := rates_to_come(first, other))), ""):
        return f"{SCHEDULED}{later}"
    if min(twin.updates for twin in (first, *others)) < 2:
        return "not comparable because only one optimizer step was seen"
    return PROVEN


def _samples_line(finding: Finding) -> str:
    return f"differs by their number: {finding.why}" if finding.kind in (FindingKind.SAMPLES, FindingKind.PASSES) else PROVEN
