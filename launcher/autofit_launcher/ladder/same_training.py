"""A rung's certificate: what of its training was proven to be the asked one, and by what the rest differs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from autofit_launcher.ladder.rungs import Ladder, Rung
from autofit_launcher.ladder.twins import Finding, FindingKind, Twin, ends_apart

PROVEN = "proven"
GIVEN_UP = "differs by what is given up"
"""The beginning of a line on sizes, lengths or a model that the person let be turned, which make another training."""
END_UNSEEN = "not comparable because its end was not reached"
_BATCH_NORM = "in batch norm, which takes its statistics from micro-batches"
BATCH_NORM = f"differs {_BATCH_NORM}; all else is the same"


@dataclass(frozen=True, kw_only=True, slots=True)
class SameTraining:
    """A rung's certificate. Each line is ``proven``, ``differs ...`` or ``not comparable because ...``."""

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
        """True if all is proven but the number of its steps, whose end no twin came to: the run counts them."""
        return self.steps.startswith(END_UNSEEN) and list(self.unproven.values()) == ["steps"]

    @property
    def unproven(self) -> dict[str, str]:
        """Each line that isn't proven -> names of the parts that have it; without lines on what is given up, which is told anyway."""
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
    elif first.by_hand:
        drawn = "what its collate function draws for one row after another stood still; all else is the same"
        verdict, lines["gradient"] = FindingKind.UNCOMPARABLE, f"not comparable because {drawn}"
    elif first.batch_norm:
        lines["gradient"] = BATCH_NORM
    if not first.ended == other.ended == "exit":
        lines.setdefault("steps", _end(first, other))
    if apart := ends_apart(first, other):
        lines.setdefault("samples", f"differs at the end of each pass over the data, whose last optimizer step is a smaller one: {apart}")
    if why := "the last optimizer step of a pass is a smaller one, which so few rows don't show" if first.unshown else _unsaid(first):
        lines.setdefault("samples", f"not comparable because {why}")
    if min(first.updates, other.updates) < 2:
        lines.setdefault("schedule", "not comparable because only one optimizer step was seen")
    return SameTraining(verdict=verdict.value, apart=finding.apart, layouts=layouts, **lines)  # type: ignore[arg-type]


def _unsaid(first: Twin) -> str:
    """Says how a step's samples differ from those said, though they are the command's at any micro-batch; empty if they don't."""
    if first.alike:
        return f"its {first.ranks} ranks read the same samples, as without a DistributedSampler; its update is the command's"
    rows = [step.rows for step in first.of(first.optimizers[0])[:2]]
    if len(rows) == 2 and first.samples not in (taken := rows[1] - rows[0], taken * first.ranks):  # divided over the ranks
        return f"a step has {taken} samples at {first.layout}, and {first.samples} are said; its update is the command's"
    return ""


def _end(first: Twin, other: Twin) -> str:
    for twin in (first, other):
        if twin.ended == "failed":
            return f"not comparable because it failed at {twin.layout}: {twin.why}"
    return f"{END_UNSEEN} in {min(first.updates, other.updates)} optimizer steps: the run counts them"
