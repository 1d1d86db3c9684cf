"""Runs twins of a rung, each as a process of its own, and reads what they saw. ``ladder.twins`` compares it."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher.adapter.commands import Command
from launcher.adapter.protocol import Adapter
from launcher.config.schema import Value
from launcher.ladder.rungs import CARDS, MICRO_BATCH, Rung
from launcher.ladder.twins import Step, Twin, TwinFigures
from launcher.machine import process
from launcher.machine.allocator import allocator_environment
from launcher.machine.devices import Budget
from launcher.shared.orders import Orders
from launcher.trial.job import Job

MODULE = "launcher.inside.same.run"
PASS_STEPS = 4
"""Optimizer steps that a pass over the data is cut to."""
MOST_ROWS = 4
"""Of twins that are held against each other by their updates."""
LEAST_S = 5.0
"""With less left no more twins are begun."""


class OutOfTime(Exception):
    """The twins took longer than they may."""


class Twins:
    """Those of one proof, round by round. A layout is (micro-batch, accumulation) on as many ranks as were asked: the first twin has these;
    on fewer the others accumulate as much more."""

    def __init__(self, job: Job, rung: Rung, *, until: float, name: str = "twins") -> None:
        """``until``: by ``time.monotonic``. ``name``: of their folder."""
        self._job, self._rung, self._until = job, rung, until
        self._place = job.folder.trials / name
        self._rounds = 0
        self.single = True
        """Weights of half precision are turned to single."""

    def run(
        self, adapter: Adapter, layouts: Sequence[tuple[int, int]], *, short: bool = True, points: bool = False, **told: Any
    ) -> list[Twin]:
        """Twins of these layouts, the first of which the others are held against."""
        asked, used = self._job.ladder.asked.world_size, self._rung.world_size
        rungs = [self._laid_out(*layouts[0], {}, ranks=asked)]
        rungs += [self._laid_out(micro, many * asked // used, {}) for micro, many in layouts[1:]]
        named = {f"{rung.micro_batch}x{rung.accumulation}": rung for rung in rungs}
        return self._round(adapter, named, short=short, points=points, **told)

    def of_values(self, asked: Mapping[str, Value]) -> list[Twin]:
        """Twins of the same rows, the first with these values of wheels and the second as the rung has them."""
        rows = min(self._rung.micro_batch, MOST_ROWS)
        rungs = {"asked": self._laid_out(rows, 1, asked), "used": self._laid_out(rows, 1, {})}
        return self._round(self._job.adapter, rungs, short=True, points=False)

    def _laid_out(self, micro: int, accumulation: int, values: Mapping[str, Value], *, ranks: int | None = None) -> Rung:
        ranks = ranks or self._rung.world_size
        cards = {CARDS: ranks} if CARDS in self._rung.values else {}
        laid_out = {**self._rung.values, **values, MICRO_BATCH: micro, **cards}
        return replace(self._rung, values=laid_out, accumulation=accumulation, world_size=ranks)

    def _round(self, adapter: Adapter, rungs: Mapping[str, Rung], *, short: bool, points: bool, **told: Any) -> list[Twin]:
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
            budget = self._job.on(rung).budget
            command = adapter.twin(rung, budget, folder=place / name, short=short, points=points)
            command = replace(command, env={**allocator_environment(budget), **command.env})
            if not self._job.adapter.starts_ranks:
                command = replace(command, ranks=rung.world_size)
            samples = rung.effective_batch
            more = {
                "samples": samples, "micro_batch": rung.micro_batch, "pass_samples": PASS_STEPS * samples, "seconds": left / 4,
                "whole_batch": self._rung.effective_batch, "single": self.single, "by_index": self._several, **told,
            }  # fmt: skip
            twin = _twin(name, command, against=twins[0]["name"] if twins else "", told=more)
            twins.append({**twin, "ranks": rung.world_size, "orders": _of_devices(budget)})
        self._child(place, {"twins": twins, "at_once": self._at_once, "limit_s": left / 2})
        return [
            read(place / name, micro_batch=rung.micro_batch, accumulation=rung.accumulation, ranks=rung.world_size)
            for name, rung in rungs.items()
        ]

    @property
    def _several(self) -> bool:
        """Several ranks train together in one of them at least."""
        return max(self._rung.world_size, self._job.ladder.asked.world_size) > 1

    @property
    def _at_once(self) -> int:
        """Two, on a CPU with room for both; not of several ranks, whose launcher may have one port."""
        budget = self._job.budget
        return 2 if budget.kind == "cpu" and not self._several and 2 * budget.ceiling_bytes < budget.free_bytes else 1

    def _child(self, place: Path, payload: dict[str, Any]) -> None:
        budget = self._job.budget
        orders = Orders(
            module=MODULE, folder=str(place), device=budget.kind, device_uuid=budget.uuid, may_spill=budget.may_spill,
            cap_bytes=budget.cap_bytes, ceiling_bytes=budget.ceiling_bytes, accumulation=self._rung.accumulation, payload=payload,
            cache=str(self._job.folder.cache),
        )  # fmt: skip
        orders.scratch.mkdir(exist_ok=True)
        orders.write(place / "orders.json")
        child = process.start(
            process.python_module("launcher.inside", str(place / "orders.json")),
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
        "name": name, "argv": list(command.words), "env": dict(command.env), "told": {**told, "against": against},
        "files": {str(path): text for path, text in command.files.items()},
    }  # fmt: skip


def _of_devices(budget: Budget) -> dict[str, Any]:
    """What its ranks, each of which finds its own card, are told otherwise."""
    own = {"device_uuid": budget.uuid, "cap_bytes": budget.cap_bytes, "ceiling_bytes": budget.ceiling_bytes}
    on_cards = budget.ranks if budget.kind == "cuda" else ()
    return {**own, "cards": [_of_devices(one) for one in on_cards]} if on_cards else own


# ----------------------------------------------------------------------------------------------------------------------
# Reading


def read(folder: Path, *, micro_batch: int, accumulation: int, ranks: int = 1) -> Twin:
    """The twin that has run in ``folder``."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("records/*/twin.json"))]
    stepped = sorted((one for one in found if one["steps"]), key=lambda one: int(one.get("rank", 0)))
    empty = Twin(micro_batch=micro_batch, accumulation=accumulation, ranks=ranks)
    if stepped and [(one.get("rank", 0), one.get("size", 1)) for one in stepped] != [(at, ranks) for at in range(ranks)]:
        several = len(stepped) > 1 and all(one.get("size", 1) == 1 for one in stepped)
        how = f"of {stepped[0].get('size', 1)} that train together made steps, and {ranks} were read of the command"
        return replace(empty, why=f"{len(stepped)} processes {'made steps, each for itself' if several else how}")
    if not stepped:
        widened = any(one.get("widened") for one in found)
        failed = next((one["failure"] for one in found if "failure" in one), "")
        said = f" (its last words: {last})" if (last := _last_words(folder / "log")) else ""
        why = f"it failed: {failed}" if failed else f"no optimizer of torch's made a step{said}"
        return replace(empty, why=why, widened=widened)
    said, each = stepped[0], micro_batch * accumulation
    indices, rows = zip(*map(_rows, stepped), strict=True)
    dataset = said["trained"][0] if said["trained"] else 0
    return replace(
        empty,
        steps=tuple(_as_one([_step(one) for one in steps]) for steps in zip(*(one["steps"] for one in stepped), strict=False)),
        ended=_ended([one["ended"] for one in stepped]),
        why=next((one["failure"] for one in stepped if "failure" in one), ""),
        rows=tuple(row for at in range(0, max(map(len, rows)), each) for own in rows for row in own[at : at + each]),
        indices=indices[0] if ranks == 1 and len(said["trained"]) == 1 else (),
        alike=len({tuple(sorted(own[:each])) for own in rows}) == 1 < min(ranks, len(set(rows[0][:each]))),
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


def _rows(said: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(indices, digests) of what one process has trained on."""
    rows = [row for number in said["trained"] for row in said["rows"].get(str(number), ())]
    return tuple(index for index, _ in rows), tuple(digest for _, digest in rows) or tuple(said["inputs"])


def _as_one(ranks: Sequence[Step]) -> Step:
    """One step of all ranks: their rows, and the worst that any of them saw."""
    held = [step.against for step in ranks if step.against is not None]
    worst = max(held, key=lambda one: (bool(one.mismatch), not math.isfinite(one.apart), one.apart), default=None)
    spread = max((abs(getattr(one, name) - getattr(held[0], name)) for one in held for name in ("apart", "factor")), default=0.0)
    rows, strayed, uneven = sum(step.rows for step in ranks), max(step.strayed for step in ranks), max(step.uneven for step in ranks)
    return replace(ranks[0], rows=rows, against=worst, spread=spread, strayed=strayed, uneven=uneven)


def _ended(how: Sequence[str]) -> str:
    """Of all ranks. One that was long enough may leave others in a collective, which fails."""
    return next((one for one in ("limit", "failed", "steps") if one in how), how[0])


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
    against = TwinFigures(**said["against"]) if "against" in said else None
    return Step(**known, settings=tuple(said["settings"]), scheduled=tuple(said.get("scheduled", ())), against=against)
