"""A rung that fits -> whether it is the asked training, by twins of it that really run. Acts; ``sameness`` decides.

Once per launch, where the rung that was found accumulates more than was asked; what comes of it is kept with the fit.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from launcher import process, sameness
from launcher.allocator import allocator_environment
from launcher.contract.orders import Orders
from launcher.job import Job
from launcher.ladder import MICRO_BATCH, Rung
from launcher.sameness import Finding, Kind, SameTraining, Twin
from launcher.trainers.base import Command, Proves, proving

MODULE = "launcher.trainers.script.inside.same.run"
PASS_STEPS = 4
"""Optimizer steps that a pass over the data is cut to."""
LEAST_S = 5.0
"""With less left no more twins are begun."""
REFUSED = frozenset({Kind.SCALE, Kind.WEIGHTED, Kind.ROWS_SEE, Kind.SETTINGS, Kind.SAMPLES, Kind.DIFFERENT})


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """What became of it."""

    same: SameTraining
    refused: str = ""
    """Why no rung with more accumulation than asked may be launched; empty where this one may."""
    job: Job | None = None
    """The launch with what cures it, where that was needed."""


def needed(job: Job, rung: Rung) -> bool:
    """Whether the rung puts its optimizer step together otherwise than asked."""
    return rung.accumulation > job.ladder.asked.accumulation


def prove(job: Job, rung: Rung) -> Proof:
    """Runs the twins of a rung. Raises Interrupted on a signal."""
    began = time.monotonic()
    proof = _Proving(job, rung, until=began + job.recipe.trial.proof_timeout_s).proof()
    return replace(proof, same=replace(proof.same, seconds=time.monotonic() - began))


class _OutOfTime(Exception):
    """The twins took longer than they may."""


class _Proving:
    """One proof under way."""

    def __init__(self, job: Job, rung: Rung, *, until: float) -> None:
        self._job, self._rung, self._until = job, rung, until
        self._place = job.folder.trials / "twins"
        self._rounds = 0

    def proof(self) -> Proof:
        adapter, limit_s = proving(self._job.adapter), self._job.recipe.trial.proof_timeout_s
        if adapter is None:
            return Proof(same=sameness.unproven(f"the adapter {self._job.adapter.name} doesn't say how its runs are made small"))
        if not limit_s:
            return Proof(same=sameness.unproven("trial.proof_timeout_s is 0"))
        if self._rung.world_size > 1:
            return Proof(same=sameness.unproven(f"{self._rung.world_size} processes train together"))
        layouts = adapter.small(self._rung, self._job.ladder.asked)
        if len(layouts) < 2:
            return Proof(same=sameness.unproven("its optimizer step can't be made smaller"))
        try:
            return self._compared(adapter, layouts)
        except _OutOfTime:
            return Proof(same=sameness.unproven(f"it took longer than {limit_s:g} s (trial.proof_timeout_s)"))
        finally:
            self._forget()

    def _compared(self, adapter: Proves, layouts: Sequence[tuple[int, int]]) -> Proof:
        finding, twins = self._found(adapter, layouts)
        if finding.kind is Kind.UNCOMPARABLE and layouts[0][0] == 4:  # a batch of four may be more than there is memory or data for
            smaller = [(micro, accumulation) for micro, accumulation in _halved(layouts)]
            again, fewer = self._found(adapter, smaller)
            if again.kind is not Kind.UNCOMPARABLE:
                finding, twins = again, fewer
        same = sameness.certificate(finding, twins[0], twins[1:])
        return Proof(same=same, refused=_refusal(finding, same))

    def _found(self, adapter: Proves, layouts: Sequence[tuple[int, int]]) -> tuple[Finding, list[Twin]]:
        """What twins of these layouts come to; of one row, repeated, where that tells why they differ."""
        twins = self._run(adapter, layouts)
        finding = sameness.compare(twins[0], twins[1:])
        if finding.rows_differ and twins[0].indices:
            again = self._run(adapter, layouts, rows=list(twins[0].indices), rows_of=twins[0].dataset)
            forced = sameness.compare(again[0], again[1:])
            if forced.kind is not Kind.UNCOMPARABLE:
                twins, finding = again, forced
        if finding.kind is Kind.DIFFERENT:
            one = self._run(adapter, [layouts[0], layouts[-1]], same_row=True)
            finding = sameness.with_one_row(finding, one[0], one[1])
        return finding, twins

    # -- running

    def _run(self, adapter: Proves, layouts: Sequence[tuple[int, int]], **told: Any) -> list[Twin]:
        """Twins of these layouts, the first of which the others are held against."""
        self._rounds += 1
        left = self._until - time.monotonic()
        if left < LEAST_S:
            raise _OutOfTime
        place = self._place / str(self._rounds)
        shutil.rmtree(place, ignore_errors=True)  # of an earlier beginning of the same launch
        place.mkdir(parents=True)
        names = [f"{micro}x{accumulation}" for micro, accumulation in layouts]
        twins = []
        for name, (micro, accumulation) in zip(names, layouts, strict=True):
            rung = replace(self._rung, values={**self._rung.values, MICRO_BATCH: micro}, accumulation=accumulation)
            command = adapter.twin(rung, self._job.budget, folder=place / name)
            samples = micro * accumulation
            more = {"samples": samples, "micro_batch": micro, "pass_samples": PASS_STEPS * samples, "seconds": left / 4, **told}
            twins.append(_twin(name, command, against="" if name == names[0] else names[0], told=more))
        self._child(place, {"twins": twins, "at_once": self._at_once, "limit_s": left / 2})
        return [
            sameness.read(place / name, micro_batch=micro, accumulation=accumulation)
            for name, (micro, accumulation) in zip(names, layouts, strict=True)
        ]

    @property
    def _at_once(self) -> int:
        """Two, on a CPU with room for both."""
        budget = self._job.budget
        return 2 if budget.kind == "cpu" and 2 * budget.ceiling_bytes < budget.free_bytes else 1

    def _child(self, place: Path, payload: dict[str, Any]) -> None:
        budget = self._job.budget
        orders = Orders(
            module=MODULE, folder=str(place), device=budget.kind, device_uuid=budget.uuid, may_spill=budget.may_spill,
            cap_bytes=budget.cap_bytes, ceiling_bytes=budget.ceiling_bytes, accumulation=self._rung.accumulation, payload=payload,
        )  # fmt: skip
        orders.scratch.mkdir(exist_ok=True)
        orders.write(place / "orders.json")
        child = process.start(
            process.python_module("launcher.worker", str(place / "orders.json")),
            env=allocator_environment(budget, self._rung, shapes_vary=self._job.adapter.shapes_vary(self._rung)),
            stdout=place / "stdout.log",
            stderr=place / "stderr.log",
        )
        with process.forward_signals(child, grace_s=1.0):
            ending = process.wait(child, timeout_s=max(self._until - time.monotonic(), 1.0), stderr=place / "stderr.log")
        if ending.timed_out:
            raise _OutOfTime

    def _forget(self) -> None:
        """Gradients are large, and of no use afterwards; what each twin said stays."""
        for path in self._place.glob("**/gradients-*.pt"):
            path.unlink(missing_ok=True)
        for path in self._place.glob("*/scratch"):
            shutil.rmtree(path, ignore_errors=True)


def _twin(name: str, command: Command, *, against: str, told: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name, "argv": list(command.argv), "env": dict(command.env), "told": {**told, "against": against},
        "files": {str(path): text for path, text in command.files.items()},
    }  # fmt: skip


def _halved(layouts: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same of two rows."""
    least = layouts[0][1]
    return [(2, least), (1, 2 * least)]


def _refusal(finding: Finding, same: SameTraining) -> str:
    """Why the rung is refused, or nothing."""
    if finding.kind in REFUSED:
        return finding.why
    return next((f"{name} {line}" for name, line in same.lines.items() if line.startswith("differs by")), "")
