"""Rows of a case -> what they prove: for each claim whether it holds, with its figures. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autofit_launcher.common.sizes import GIB, MIB
from benchmarks.gpu_check.cases import LEAST_MICRO_BATCHES, Case

MOST_ALLOCATED = 1.02
"""Live memory of a run over that of its trial."""
MOST_MORE_OUTSIDE = 128 * MIB
"""What a run holds outside the allocator, beyond what its trial did: kernels for more sizes than a trial has."""
Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Check:
    """One claim. ``holds``: None where its rows are not there."""

    claim: str
    holds: bool | None
    figures: str = ""


def of(case: Case, rows: Sequence[Row]) -> list[Check]:
    """Every claim about a case, of its newest rows."""
    one = _Case(case, newest(case, rows))
    checks = [one.survives(), one.above_dies(), one.allocates_no_more(), one.holds_no_more_outside(), one.hides_nothing()]
    return [*checks, one.control_dies()] if case.control is not None else checks


def newest(case: Case, rows: Sequence[Row]) -> list[Row]:
    """The rows of the commit and the card on which a case was last walked: a run's figures are compared with its own trial's."""
    ours = [row for row in rows if row["step"].startswith(f"{case.name}: ")]
    return [row for row in ours if all(row[key] == ours[-1][key] for key in ("commit", "card"))]


class _Case:
    def __init__(self, case: Case, rows: Sequence[Row]) -> None:
        self._case, self._rows = case, rows

    def _row(self, step: str) -> Row | None:
        return next((row for row in reversed(self._rows) if row["step"] == f"{self._case.name}: {step}"), None)

    def _chosen(self) -> Row | None:
        trials = [row for row in self._rows if row["step"] == f"{self._case.name}: trial"]
        return next((row for row in trials if row["verdict"] == "fits"), None)

    def survives(self) -> Check:
        claim = f"the chosen rung's run survives {LEAST_MICRO_BATCHES} micro-batches under its trial's cap"
        row = self._row("run")
        if row is None:
            return Check(claim=claim, holds=None)
        done = int(row["run"].get("micro_batches", 0))
        alive = row["returncode"] == 0 or (row["timed_out"] and row["failure"] is None)
        return Check(claim=claim, holds=alive and done >= LEAST_MICRO_BATCHES, figures=f"{done} micro-batches, status {row['returncode']}")

    def above_dies(self) -> Check:
        claim = "the rung above, really run under the whole budget, dies, or missed its cap by less than the headroom"
        row, chosen = self._row("above"), self._chosen()
        if row is None and chosen is not None and chosen["rung_index"] == 0:
            return Check(claim=claim, holds=True, figures="what was asked fits: there is none above")
        if row is None:
            return Check(claim=claim, holds=None)
        if row["returncode"] != 0 and row["failure"] is not None:
            return Check(claim=claim, holds=True, figures=f"died: {row['failure']['source']}")
        missed, headroom = row["missed_by_bytes"], row["headroom_bytes"]
        by = f"missed by {missed} of a headroom of {headroom} bytes"
        squeezed = f"stayed {-missed / GIB:.2f} GiB below its cap, but only by emptying the allocator's cache on its way"
        return Check(claim=claim, holds=missed <= headroom, figures=f"lived; its trial {by if missed > 0 else squeezed}")

    def allocates_no_more(self) -> Check:
        claim = f"the run allocates at most {MOST_ALLOCATED} times what its trial did"
        row, chosen = self._row("run"), self._chosen()
        if row is None or chosen is None or not row["run"]:
            return Check(claim=claim, holds=None)
        ours, theirs = row["run"]["allocated_bytes"], max(use["allocated_bytes"] for use in chosen["uses"])
        return Check(claim=claim, holds=ours <= MOST_ALLOCATED * theirs, figures=f"{ours / theirs:.4f}" if theirs else f"{ours} of 0")

    def holds_no_more_outside(self) -> Check:
        claim = f"the run holds at most {MOST_MORE_OUTSIDE // MIB} MiB more outside the allocator than its trial did"
        row, chosen = self._row("run"), self._chosen()
        if row is None or chosen is None or not row["run"]:
            return Check(claim=claim, holds=None)
        ours, base = row["run"]["outside_bytes"], max(use["outside_bytes"] for use in chosen["uses"])
        return Check(claim=claim, holds=ours - base <= MOST_MORE_OUTSIDE, figures=f"{(ours - base) / MIB:+.0f} MiB on {base / MIB:.0f}")

    def hides_nothing(self) -> Check:
        claim = "the run met no out-of-memory that it hid"
        row = self._row("run")
        if row is None or not row["run"]:
            return Check(claim=claim, holds=None)
        return Check(
            claim=claim, holds=not row["run"]["ooms"] and not row["lost"], figures=f"{row['run']['ooms']} refused, {len(row['lost'])} lines"
        )

    def control_dies(self) -> Check:
        claim = f"what is asked is out of memory on {self._case.control}, in its trial and in a real run"
        trial, row = self._row("control trial"), self._row("control")
        if trial is None or row is None:
            return Check(claim=claim, holds=None)
        died = row["returncode"] != 0 and row["failure"] is not None
        return Check(
            claim=claim, holds=trial["verdict"] == "out_of_memory" and died, figures=f"{trial['verdict']}, status {row['returncode']}"
        )
