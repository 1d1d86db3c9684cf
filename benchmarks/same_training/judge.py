"""What was measured, held against what autofit said -> a verdict. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.same_training.cases import WHOLE, Case
from benchmarks.same_training.measure import Measured

SAME = "same, and said so"
TOLD = "differs, and said so"
REFUSED = "differs, and refused"
UNPROVEN = "same, said not to be proven"
ALARM = "false alarm"
SILENT = "SILENT DIFFERENCE"
NOT_PLAYED = "not played"
VERDICTS = (SILENT, ALARM, SAME, TOLD, REFUSED, UNPROVEN, NOT_PLAYED)
PARTS = ("gradient", "steps", "schedule", "samples")
"""What a proof of autofit's speaks of."""
_WORDS = re.compile(r"batch norm|not exact|can't be exact|not the large batch|differs|not the same|not comparable|not proven", re.I)
_NO_SAMENESS = ("out_of_memory", "fits")
"""Verdicts of trials that don't speak of the training's sameness."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """What autofit said of its launch."""

    status: str
    micro_batch: int | None
    effective_batch: float | None
    parts: Mapping[str, str]
    """Of its proof; empty where it gave none."""
    told: Sequence[str]
    """Lines of the screen and of the run that speak of a difference. Beside a proof only those of batch norm count."""
    notes: Sequence[str] = ()
    """Of its proof: what the update doesn't show (batch norm)."""
    why: str = ""
    """Where nothing was launched: its words."""

    @property
    def launched(self) -> bool:
        return self.status in ("done", "failed")

    @property
    def words(self) -> str:
        """In one line, for the table."""
        if not self.launched:
            return f"refused: {self.why}"
        if self.parts and all(value.startswith("proven") for value in self.parts.values()):
            return "; ".join(("proven the same", *self.notes))
        if self.parts:
            return "; ".join(f"{name} {value}" for name, value in self.parts.items() if not value.startswith("proven"))
        if self.effective_batch != WHOLE:
            return f"effective batch {self.effective_batch:g} instead of {WHOLE}"
        return "; ".join(self.told) or "effective batch as asked"

    def as_row(self) -> dict[str, Any]:
        return asdict(self)


def said(answer: Mapping[str, Any], screen: str, *, ranks: int = 1) -> Said:
    """Out of the answer of ``autofit run --json`` and what its screen showed. ``ranks``: the batch that counts is one's."""
    whole = answer.get("effective_batch")
    rung, proof = answer.get("rung") or {}, answer.get("same_training") or {}
    parts = {name: str(value) for name, value in proof.items() if name in PARTS}
    told = [line.strip()[:300] for line in screen.splitlines() if _WORDS.search(line)]
    return Said(
        status=str(answer.get("status", "no answer")), micro_batch=rung.get("micro_batch"), effective_batch=whole and whole / ranks,
        parts=parts, told=list(dict.fromkeys(told))[:4], notes=[str(note) for note in proof.get("notes", ())], why=_why(answer, screen),
    )  # fmt: skip


def _why(answer: Mapping[str, Any], screen: str) -> str:
    """Why nothing was launched: of the input, or of the last trial that failed otherwise than by memory."""
    if answer.get("status") in ("done", "failed"):
        return ""
    if answer.get("faults"):
        return "; ".join(str(one.get("found", one)) for one in answer["faults"])[:400]
    if refused := (answer.get("same_training") or {}).get("refused"):
        return str(refused)[:400]
    words = [f"{one['verdict']}: {one['why']}" for one in answer.get("trials", ()) if one["verdict"] not in _NO_SAMENESS]
    if words:
        return words[-1][:400]
    return "no rung fits its memory" if answer.get("trials") else (screen.strip().splitlines() or ["no words"])[-1][:400]


def differences(found: Measured, case: Case) -> dict[str, str]:
    """Part of the proof -> how it really differs; ``weights`` where they do although nothing else does."""
    parts: dict[str, str] = {}
    if found.gradient > case.gradient:
        scale = f" ({found.factor:.3f} times, {found.residue:.0e} beside that)" if found.residue < 0.5 else ""
        parts["gradient"] = f"the first update by {found.gradient:.1e}{scale}"
    if found.steps[0] != found.steps[1]:
        parts["steps"] = f"{found.steps[1]} optimizer steps instead of {found.steps[0]}"
    if found.rates:
        parts["schedule"] = f"learning rates, {found.rates}"
    moved = max(found.weights, found.kept or 0.0)
    others = abs(found.rows[0] - found.rows[1]) >= WHOLE or not found.same_rows
    if others and (parts or moved > case.gradient):  # else they were fetched and left out, as the end of a pass is by drop_last
        parts["samples"] = f"{found.rows[1]} rows instead of {found.rows[0]}" if found.same_rows else "other rows"
    if not parts and (moved > case.weights or found.start > 0):
        parts["weights"] = f"the weights at the end by {moved:.1e}" if found.start == 0 else "the weights before the first step"
    return parts


def verdict(case: Case, answer: Said, found: Measured | None) -> str:
    """The row's verdict. A difference is told where the part of the proof that it concerns isn't called proven."""
    if not answer.launched:
        return _refused(case, answer)
    if found is None or answer.status == "failed":
        return NOT_PLAYED
    wrong = differences(found, case)
    if not wrong:
        if answer.parts:
            return SAME if _proven(answer) else ALARM if any("differ" in value for value in answer.parts.values()) else UNPROVEN
        return SAME if answer.effective_batch == WHOLE else ALARM
    return SILENT if any(not _tells(answer, part) for part in wrong) else TOLD


def _refused(case: Case, answer: Said) -> str:
    if answer.why.startswith("no rung fits"):
        return NOT_PLAYED
    return ALARM if case.same else REFUSED


def _proven(answer: Said) -> bool:
    return all(value.startswith("proven") for value in answer.parts.values())


def _tells(answer: Said, part: str) -> bool:
    """Whether the answer speaks of a difference of this part: its proof does; without one, the batch or the screen."""
    if part in ("gradient", "weights") and any("batch norm" in line for line in (*answer.notes, *answer.told)):
        return True
    if part in answer.parts:
        return not answer.parts[part].startswith("proven")
    if answer.parts:
        return not _proven(answer)
    return answer.effective_batch != WHOLE or bool(answer.told)
