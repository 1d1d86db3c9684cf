"""A rung -> a bounded child that really runs it -> its report and verdict. Acts; ``verdict.judge`` decides."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from launcher import devices, process
from launcher.allocator import allocator_environment
from launcher.contract.ending import Ending
from launcher.contract.orders import Orders
from launcher.contract.report import TrialReport
from launcher.devices import Budget
from launcher.errors import BadInput, Fault
from launcher.ladder import Rung
from launcher.record import RunFolder
from launcher.schema import Recipe
from launcher.trainers.base import Adapter, Command, TrialPlan
from launcher.verdict import Needs, Verdict, judge


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One rung, really tried."""

    rung: Rung
    verdict: Verdict
    report: TrialReport
    seconds: float
    folder: Path


def run(recipe: Recipe, adapter: Adapter, rung: Rung, budget: Budget, folder: RunFolder) -> Trial:
    """Tries one rung in a process of its own, which is gone with all its children when this returns.

    The trainer's output goes to ``stdout.log`` and ``stderr.log`` of the trial's folder, what it writes to ``scratch/`` there,
    which is removed. Raises Interrupted on a signal.
    """
    place = folder.trial(rung.index)
    folder.cache.mkdir(exist_ok=True)
    if (fetch := adapter.fetch(recipe, rung)) is not None:
        _fetched(fetch, place)
    plan = adapter.trial(recipe, rung, budget, folder=place, cache=folder.cache)
    orders = Orders(
        module=plan.module,
        folder=str(place),
        device=budget.kind,
        device_index=budget.index,
        cap_bytes=budget.cap_bytes,
        accumulation=rung.accumulation,
        steps=recipe.trial.steps,
        validation_batches=recipe.trial.validation_batches,
        steps_after=recipe.trial.steps_after,
        payload=dict(plan.payload),
    )
    orders.scratch.mkdir(exist_ok=True)
    orders.write(place / "orders.json")
    child = process.start(
        process.python_module("launcher.worker", str(place / "orders.json")),
        env={**allocator_environment(budget, rung), **plan.env},
        stdout=place / "stdout.log",
        stderr=place / "stderr.log",
    )
    with process.forward_signals(child, grace_s=1.0):
        ending = process.wait(child, timeout_s=recipe.trial.timeout_s, stderr=place / "stderr.log")
    shutil.rmtree(orders.scratch, ignore_errors=True)
    devices.settle(budget)
    return _finished(rung, ending, place, budget, orders, plan)


def _fetched(command: Command, place: Path) -> None:
    """Downloads what the rung needs. Raises BadInput with the tool's own words where that fails."""
    log = place / "fetch.log"
    child = process.start(command.argv, env=command.env, stdout=log, stderr=log)
    with process.forward_signals(child):
        ending = process.wait(child, stderr=log)
    if ending.returncode != 0:
        raise BadInput(
            [
                Fault(
                    key="ask.model",
                    found=f"fetching failed: {ending.stderr_tail.strip()[-1000:]}",
                    cure="Fetch it by hand.",
                    where=str(log),
                )
            ]
        )


def _finished(rung: Rung, ending: Ending, place: Path, budget: Budget, orders: Orders, plan: TrialPlan) -> Trial:
    report = TrialReport.read(orders.report_path)
    needs = Needs(optimizer_steps=orders.steps, validation_batches=1, observed={**plan.expects, "device": budget.kind})
    verdict = judge(report, ending, rung=rung, needs=needs, device_bytes=budget.total_bytes)
    trial = Trial(rung=rung, verdict=verdict, report=report or TrialReport(), seconds=ending.seconds, folder=place)
    RunFolder(place.parent.parent).replace_json(
        place / "verdict.json", {"rung": rung, "verdict": verdict, "seconds": ending.seconds, "ending": ending}
    )
    return trial
