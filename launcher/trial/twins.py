"""Runs twins of a rung, each as a process of its own, and reads what they saw. ``ladder.twins`` compares it."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher.adapter.commands import Command
from launcher.adapter.protocol import Proves
from launcher.config.schema import Value
from launcher.ladder.rungs import MICRO_BATCH, Rung
from launcher.ladder.twins import Step, Twin, TwinFigures
from launcher.machine import process
from launcher.machine.allocator import allocator_environment
from launcher.shared.orders import Orders
from launcher.trial.job import Job

MODULE = "launcher.trainers.script.inside.same.run"
PASS_STEPS = 4
"""Optimizer steps that a pass over the data is cut to."""
MOST_ROWS = 4
"""Of twins that are held against each other by their updates."""
LEAST_S = 5.0
"""With less left no more twins are begun."""


class OutOfTime(Exception):
    """The twins took longer than they may."""


class Twins:
    """Those of one proof, round by round."""

    def __init__(self, job: Job, rung: Rung, *, until: float, name: str = "twins") -> None:
        """``until``: by ``time.monotonic``. ``name``: of their folder."""
        self._job, self._rung, self._until = job, rung, until
        self._place = job.folder.trials / name
        self._rounds = 0
        self.single = True
        """Weights of half precision are turned to single."""

    def run(
        self, adapter: Proves, layouts: Sequence[tuple[int, int]], *, short: bool = True, points: bool = False, **told: Any
    ) -> list[Twin]:
        """Twins of these layouts, the first of which the others are held against."""
        named = {f"{micro}x{many}": self._laid_out(micro, many, {}) for micro, many in layouts}
        return self._round(adapter, named, short=short, points=points, **told)

    def of_values(self, adapter: Proves, asked: Mapping[str, Value]) -> list[Twin]:
        """An update by the same rows with these values of wheels, and as the rung has them."""
        rows = min(self._rung.micro_batch, MOST_ROWS)
        rungs = {"asked": self._laid_out(rows, 1, asked), "used": self._laid_out(rows, 1, {})}
        return self._round(adapter, rungs, short=True, points=False, update=True, single=False)

    def _laid_out(self, micro: int, accumulation: int, values: Mapping[str, Value]) -> Rung:
        return replace(self._rung, values={**self._rung.values, **values, MICRO_BATCH: micro}, accumulation=accumulation)

    def _round(self, adapter: Proves, rungs: Mapping[str, Rung], *, short: bool, points: bool, **told: Any) -> list[Twin]:
        """One twin of each rung, by name."""
        self._rounds += 1
        left = self._until - time.monotonic()
        if left < LEAST_S:
            raise OutOfTime
        place = self._place / str(self._rounds)
        shutil.rmtree(place, ignore_errors=True)  # of an earlier beginning of the same launch
        place.mkdir(parents=True)
        twins: list[dict[str, Any]] = []
        for name, rung in rungs.items():
            command = adapter.twin(rung, self._job.budget, folder=place / name, short=short, points=points)
            samples = rung.micro_batch * rung.accumulation
            more = {
                "samples": samples, "micro_batch": rung.micro_batch, "pass_samples": PASS_STEPS * samples, "seconds": left / 4,
                "whole_batch": self._rung.effective_batch, "single": self.single, **told,
            }  # fmt: skip
            twins.append(_twin(name, command, against=twins[0]["name"] if twins else "", told=more))
        self._child(place, {"twins": twins, "at_once": self._at_once, "limit_s": left / 2})
        return [read(place / name, micro_batch=rung.micro_batch, accumulation=rung.accumulation) for name, rung in rungs.items()]

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
            env=allocator_environment(budget),
            stdout=place / "stdout.log",
            stderr=place / "stderr.log",
        )
        with process.forward_signals(child, grace_s=1.0):
            ending = process.wait(child, timeout_s=max(self._until - time.monotonic(), 1.0), stderr=place / "stderr.log")
        if ending.timed_out:
            raise OutOfTime

    def forget(self) -> None:
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


# ----------------------------------------------------------------------------------------------------------------------
# Reading


def read(folder: Path, *, micro_batch: int, accumulation: int) -> Twin:
    """The twin that has run in ``folder``."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("records/*/twin.json"))]
    stepped = [one for one in found if one["steps"]]
    if len(stepped) > 1:
        return Twin(micro_batch=micro_batch, accumulation=accumulation, why=f"{len(stepped)} processes train together")
    if not stepped:
        widened = any(one.get("widened") for one in found)
        failed = next((one["failure"] for one in found if "failure" in one), "")
        said = f" (its last words: {last})" if (last := _last_words(folder / "log")) else ""
        why = f"it failed: {failed}" if failed else f"no optimizer of torch's made a step{said}"
        return Twin(micro_batch=micro_batch, accumulation=accumulation, why=why, widened=widened)
    (said,) = stepped
    rows = [row for number in said["trained"] for row in said["rows"].get(str(number), ())]
    dataset = said["trained"][0] if said["trained"] else 0
    return Twin(
        micro_batch=micro_batch,
        accumulation=accumulation,
        steps=tuple(_step(one) for one in said["steps"]),
        ended=said["ended"],
        why=said.get("failure", ""),
        rows=tuple(digest for _, digest in rows) or tuple(said["inputs"]),
        indices=tuple(index for index, _ in rows) if len(said["trained"]) == 1 else (),
        dataset=dataset,
        whole=said["whole"].get(str(dataset)),
        ragged=bool(said.get("ragged")),
        batch_norm=bool(said.get("batch_norm")),
        evaluations=sum(int(count) for number, count in said["passes"].items() if int(number) not in said["trained"]),
        sharing=int(said.get("sharing", 0)),
        mixed=bool(said.get("mixed")),
        widened=bool(said.get("widened")),
        beside=float(said.get("beside", 0.0)),
    )


def _last_words(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")


def _step(said: Mapping[str, Any]) -> Step:
    known = {
        key: said[key] for key in ("optimizer", "rows", "backwards", "passes", "weights", "epsilon", "strayed", "uneven") if key in said
    }
    held: dict[str, Any] = {key: TwinFigures(**said[key]) for key in ("against", "update") if key in said}
    return Step(**known, settings=tuple(said["settings"]), scheduled=tuple(said.get("scheduled", ())), **held)
