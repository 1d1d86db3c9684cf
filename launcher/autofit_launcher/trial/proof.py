"""Proves that a rung that fits is the asked training, by two twins of it; ``ladder.twins`` compares what they saw.

Once per launch, where the rung that was found accumulates more than was asked; what comes of it is kept with the fit.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from autofit_launcher.adapter.protocol import Adapter
from autofit_launcher.common.activity import doing
from autofit_launcher.common.orders import FAILED, Orders
from autofit_launcher.errors import BadInput
from autofit_launcher.ladder import same_training
from autofit_launcher.ladder.rungs import MICRO_BATCH, Rung, Value
from autofit_launcher.ladder.same_training import SameTraining
from autofit_launcher.ladder.twins import LATER, SHOW_NOTHING, Finding, FindingKind, Twin, compare, with_one_row
from autofit_launcher.machine import process
from autofit_launcher.machine.devices import allocator_environment, orders_of
from autofit_launcher.trial.job import Job

MODULE = "autofit_launcher.inside.same.run"
NAMES = ("first", "other")
Layouts = Sequence[tuple[int, int]]
"""The layouts of the two twins, (micro-batch, accumulation): that of the first, as asked, and of the other."""


class OutOfTime(Exception):
    """The twins took longer than they may."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """The outcome of a proof."""

    same: SameTraining
    refused: str = ""
    """The reason why no rung with more accumulation than asked may be launched; empty where this one may."""
    job: Job | None = None
    """The launch with what puts its update right, where that was needed: the rung is to be tried again with it."""


def needed(job: Job, rung: Rung) -> bool:
    """Tells whether the rung accumulates more than asked, so that twins must show its step to be the asked one."""
    return rung.accumulation > job.ladder.asked.accumulation


def prove(job: Job, rung: Rung) -> Proof:
    """Runs the twins of a rung. Raises Interrupted on a signal."""
    found = _ran(_Proving(job, rung), _Proving.proof)
    return found if job.recipe.ladder.keep_update else replace(found, refused="")


def of_exact(job: Job, rung: Rung, same: SameTraining) -> SameTraining:
    """Returns ``same`` after twins with and without what the rung turns from outside and is to change no gradient. Raises Interrupted on a
    signal."""
    turned = {name: asked for name, (asked, _) in job.ladder.given_up(rung).items() if name in job.adapter.asked.exact}
    if not turned or same.gradient != same_training.PROVEN:
        return same
    rows = min(rung.micro_batch, 4)
    with doing(f"running the same rows with {', '.join(turned)} as asked: is an update at rung {rung.index} the asked one?"):
        by = _ran(
            _Proving(job, rung),
            lambda one: Proof(same=same_training.certificate(*one.pair(job.adapter, [(rows, 1), (rows, 1)], asked=turned))),
        ).same
    line = same_training.PROVEN if by.gradient == same_training.BATCH_NORM else by.gradient
    return replace(same, gradient=line, verdict=by.verdict, seconds=same.seconds + by.seconds)


def _ran(proving: _Proving, how: Callable[[_Proving], Proof]) -> Proof:
    """Runs a proof whose twins may fail, or take too long: then nothing is proven."""
    began, limit_s = time.monotonic(), proving.limit_s
    try:
        proof = how(proving) if limit_s else proving.unproven("trial.proof_timeout_s is 0")
    except (BadInput, OSError, ValueError, OutOfTime) as error:
        late = f"took longer than {limit_s:g} s (trial.proof_timeout_s)"
        proof = proving.unproven(f"its twins {f'could not be run: {error}' if str(error) else late}")
    finally:
        proving.forget()
    return replace(proof, same=replace(proof.same, seconds=time.monotonic() - began))


def with_cure(job: Job, cure: Mapping[str, Any]) -> Job:
    """The launch with what was found to put its update right."""
    if not cure:
        return job
    rules = job.recipe.trainer
    recipe = job.recipe.model_copy(update={"trainer": rules.model_copy(update={"args": {**rules.args, **cure}})})
    return replace(job, adapter=type(job.adapter)(recipe))


class _Proving:
    """A proof under way."""

    def __init__(self, job: Job, rung: Rung) -> None:
        self._job, self._rung, self.limit_s = job, rung, job.recipe.trial.proof_timeout_s
        self._until = time.monotonic() + self.limit_s
        self._place = job.folder.trials / "twins"
        self._rounds = 0

    def proof(self) -> Proof:
        asked, rung, adapter = self._job.ladder.asked, self._rung, self._job.adapter
        if len(layouts := adapter.small(rung, asked)) < 2:
            return self.unproven("its optimizer step can't be made smaller")
        found, *twins = self.pair(adapter, layouts)
        if others := self._other_layouts(found, twins, layouts):
            again, *seen = self.pair(adapter, others)
            if again.kind is not FindingKind.UNCOMPARABLE:
                found, twins, layouts = again, seen, others
        known = adapter.corrected(found)
        if known.doubted:
            return self.unproven(known.doubted)
        same = same_training.certificate(found, *twins, told=known.told)
        if found.kind in (FindingKind.SAME, FindingKind.UNCOMPARABLE) or known.told:
            return Proof(same=same, refused=self._too_short(same))
        if known.cure:
            with contextlib.suppress(OutOfTime, BadInput, OSError, ValueError):  # what is known to differ isn't launched for want of a cure
                return self._put_right(known.cure, found, layouts) or Proof(same=same, refused=found.why)
        return Proof(same=same, refused=found.why)

    def _other_layouts(self, found: Finding, twins: Sequence[Twin], layouts: Layouts) -> Layouts:
        """Layouts that may show what these don't: one row may be too few, or four too many; a loss may need several of a kind."""
        micro, least = layouts[0]
        seen = [one.updates > 2 or (one.steps and one.ended != "failed") for one in twins]
        if micro == 4 and not all(seen):
            return [(4, least), (2, 2 * least)] if seen[0] else [(2, least), (1, 2 * least)]
        return self._many(layouts) if found.why in SHOW_NOTHING else ()

    def _many(self, layouts: Layouts) -> Layouts:
        """Layouts of as many rows as the rung's own micro-batch has; none where those are no more."""
        most, asked = min(self._rung.micro_batch, 64) // 4 * 4, layouts[0][1]
        return [(most, asked), (most // 4, 4 * asked)] if most > layouts[0][0] else ()

    def unproven(self, why: str) -> Proof:
        """Makes a proof that could compare nothing: the rung is launched all the same, save where it would be shorter than asked."""
        same = same_training.unproven(why)
        return Proof(same=same, refused=self._too_short(same))

    def _too_short(self, same: SameTraining) -> str:
        """Says why a rung isn't launched whose number of optimizer steps isn't proven: a script counts steps that are held back."""
        if not (counted := self._job.adapter.asked.counted) or same.steps == same_training.PROVEN:
            return ""
        return f"{counted} counts training in steps, which are held back from outside, and their number is {same.steps}"

    def _put_right(self, cure: Mapping[str, Any], found: Finding, layouts: Layouts) -> Proof | None:
        """Returns a proof with what makes it the asked training, where that is proven."""
        job = with_cure(self._job, cure)
        again, *twins = self.pair(job.adapter, layouts)
        if again.kind is not FindingKind.SAME:
            of_it = not again.apart or again.why.startswith(LATER)  # what no cure of ours is for
            by = again.why if again.kind is FindingKind.DIFFERENT and of_it else ""
            return Proof(same=same_training.certificate(again, *twins), refused=by) if by else None
        if found.kind is FindingKind.FACTOR and (why := self._only_of_few(job.adapter, layouts)):
            return self.unproven(why)
        note = f"as it stands {found.why}; put right from outside, and proven so"
        return Proof(same=replace(same_training.certificate(again, *twins), cure=cure, notes=(note,)), job=job)

    def _only_of_few(self, mended: Adapter, layouts: Layouts) -> str:
        """Says why a factor seen on few rows isn't the run's: a divisor that is held at one (a sum of target scores) looks like it there.
        Empty where as many as the rung's own micro-batch say the same."""
        if not (more := self._many(layouts)):
            return ""
        many, first, _ = self.pair(mended, more)
        if many.kind in (FindingKind.SAME, FindingKind.UNCOMPARABLE):
            return ""
        return f"its gradients differ by a factor on {layouts[0][0]} rows and otherwise on {first.micro_batch}: {many.why}"

    # -- twins

    def pair(self, adapter: Adapter, layouts: Layouts, *, asked: Mapping[str, Value] | None = None) -> tuple[Finding, Twin, Twin]:
        """Compares two twins; where they differ, twins of one row, repeated, tell why. ``asked``: values of the first twin's wheels."""
        found, first, other = self._compared(adapter, layouts, asked)
        if found.kind is FindingKind.DIFFERENT and not found.apart and first.ragged:  # so few rows may round a length otherwise
            found, first, other = self._compared(adapter, layouts, asked, ends=False)
        if found.kind is FindingKind.DIFFERENT and found.apart:
            with contextlib.suppress(OutOfTime):  # why they differ isn't known then; that they do is
                found = with_one_row(found, *self._compared(adapter, layouts, asked, same_row=True)[1:])
        return found, first, other

    def _compared(self, adapter: Adapter, layouts: Layouts, asked: Mapping[str, Value] | None, **told: Any) -> tuple[Finding, Twin, Twin]:
        """Compares two twins rank by rank; returns the first rank that differs."""
        pairs = zip(*self._run(adapter, layouts, asked or {}, **told), strict=False)
        found = [(compare(first, other), first, other) for first, other in pairs]
        return next((one for one in found if one[0].kind is not FindingKind.SAME), found[0])

    def _run(self, adapter: Adapter, layouts: Layouts, asked: Mapping[str, Value], **told: Any) -> list[list[Twin]]:
        """Two twins, each as its ranks saw it."""
        self._rounds += 1
        if self._until - time.monotonic() < 5:  # seconds
            raise OutOfTime
        place = self._place / str(self._rounds)
        shutil.rmtree(place, ignore_errors=True)  # of an earlier beginning of the same launch
        self._child(self._orders(place, adapter, layouts, asked, **told))
        return [read(place / name, *layout, self._rung.world_size) for name, layout in zip(NAMES, layouts, strict=True)]

    def _orders(self, place: Path, adapter: Adapter, layouts: Layouts, asked: Mapping[str, Value], **told: Any) -> Orders:
        """Makes the orders of the process that runs two twins."""
        twins: list[dict[str, Any]] = []
        budget = self._job.budget
        for name, (micro, accumulation), values in zip(NAMES, layouts, (asked, {}), strict=True):
            rung = replace(self._rung, values={**self._rung.values, **values, MICRO_BATCH: micro}, accumulation=accumulation)
            command = adapter.twin(rung, budget, folder=place / name)
            command = command if adapter.starts_ranks else replace(command, ranks=rung.world_size)
            twins.append({
                "name": name, "argv": list(command.words), "env": {**allocator_environment(budget), **command.env},
                "files": {str(path): text for path, text in command.files.items()}, "base": dict(command.base),
                "told": {
                    "samples": micro * accumulation, "accumulation": accumulation,
                    "whole_batch": self._rung.micro_batch * self._rung.accumulation, "part": self._rung.micro_batch,
                    "against": str(place / NAMES[0] / "records") if twins else "", **told,
                },
            })  # fmt: skip
        payload = {"twins": twins, "limit_s": (self._until - time.monotonic()) / 2}
        return Orders(
            module=MODULE, folder=str(place), device=budget.kind, may_spill=budget.may_spill, **orders_of(budget),
            accumulation=self._rung.accumulation, payload=payload,
            cache=str(self._job.folder.cache), cards=[orders_of(one) for one in budget.ranks] if budget.kind == "cuda" else [],
        )  # fmt: skip

    def _child(self, orders: Orders) -> None:
        place, forks = Path(orders.folder), self._job.forks
        orders.write(place / "orders.json")
        child = process.start(
            process.python_module("autofit_launcher.inside", str(place / "orders.json")),
            env={**allocator_environment(self._job.budget), **(forks.told if self._rung.world_size == 1 else {})},
            stdout=place / "stdout.log",
            stderr=place / "stderr.log",
        )
        try:
            with process.forward_signals(child, grace_s=1.0):
                ending = process.wait(child, timeout_s=max(self._until - time.monotonic(), 1.0), stderr=place / "stderr.log")
        finally:
            forks.sweep()
        if ending.timed_out:
            raise OutOfTime

    def forget(self) -> None:
        """Removes gradients, which are large, and of no use afterwards; what each twin said stays."""
        for path in self._place.glob("**/*.pt"):
            path.unlink(missing_ok=True)
        for path in self._place.glob("*/scratch"):
            shutil.rmtree(path, ignore_errors=True)


def read(folder: Path, micro_batch: int, accumulation: int, ranks: int) -> list[Twin]:
    """The twin that has run in ``folder``, as each of its ranks saw it."""
    empty = Twin(micro_batch=micro_batch, accumulation=accumulation, ranks=ranks)
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("records/*/twin.json"))]
    if (folder / FAILED).exists():
        why = f"an error that it caught{_last_words(folder / 'log')}"
        found = [{**one, "ended": "failed", "why": why} if one["ended"] == "exit" else one for one in found]
    stepped = sorted((one for one in found if one["steps"]), key=lambda one: int(one["rank"]))
    if stepped and [(one["rank"], one["size"]) for one in stepped] != [(at, ranks) for at in range(ranks)]:
        return [replace(empty, why=f"{len(stepped)} processes made steps, and {ranks} were read of the command")] * ranks
    if not stepped:
        failed = next((one["why"] for one in found if "why" in one), "")
        return [replace(empty, why=failed or f"no optimizer of torch's made a step{_last_words(folder / 'log')}")] * ranks
    return [_TWIN.validate_python({**said, "micro_batch": micro_batch, "accumulation": accumulation, "ranks": ranks}) for said in stepped]


_TWIN = TypeAdapter(Twin)


def _last_words(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return next((f" (its last words: {line.strip()[:200]})" for line in reversed(lines) if line.strip()), "")
