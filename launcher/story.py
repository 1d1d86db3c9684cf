"""The story: recipe -> ladder -> trial -> verdict -> launch -> supervise -> record."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from launcher import devices, host, launch, process, search, supervise, trial, wheels
from launcher import recipe as recipes
from launcher.devices import Budget
from launcher.errors import BadInput, ExitCode, Fault
from launcher.job import Job
from launcher.ladder import Ladder, Rung
from launcher.recipe import Draft
from launcher.record import RunFolder
from launcher.schema import Recipe
from launcher.sizes import format_size
from launcher.supervise import Outcome
from launcher.trainers.base import Command, load_adapter
from launcher.trial import Trial

T = TypeVar("T")


class Screen(Protocol):
    """Who is told what happens, as it happens. ``display.Display`` draws it."""

    def plan(self, job: Job) -> None: ...
    def trying(self, rung: Rung, number: int) -> None: ...
    def tried(self, trial: Trial, job: Job) -> None: ...
    def summary(self, fit: Fit) -> None: ...
    def launching(self, fit: Fit) -> None: ...
    def ended(self, fit: Fit, outcome: Outcome, results: Mapping[str, Any]) -> None: ...
    def report(self, trial: Trial, job: Job) -> None: ...


@dataclass(kw_only=True, slots=True)
class Fit:
    """What the trials said."""

    job: Job
    trials: list[Trial] = field(default_factory=list)
    chosen: Trial | None = None
    command: Command | None = None
    status: str = "no_rung_fits"
    seconds: float = 0.0

    @property
    def exit_code(self) -> ExitCode:
        return {"done": ExitCode.DONE, "no_rung_fits": ExitCode.NO_RUNG_FITS, "failed": ExitCode.RUN_FAILED}.get(
            self.status, ExitCode.TRIAL_CRASHED
        )

    def as_record(self) -> dict[str, Any]:
        """The final record, which is also what ``--json`` prints."""
        rung = self.chosen.rung if self.chosen else None
        return {
            "status": self.status,
            "recipe": self.job.recipe.name,
            "rung": dict(rung.values) if rung else None,
            "rung_index": rung.index if rung else None,
            "accumulation": rung.accumulation if rung else None,
            "effective_batch": self.job.ladder.effective_batch,
            "given_up": {name: {"asked": a, "used": b} for name, (a, b) in self.job.ladder.given_up(rung).items()} if rung else None,
            "trials": [trial_record(one) for one in self.trials],
            "run_dir": str(self.job.folder.path),
            "command": self.command.shell() if self.command else None,
            "device": self.job.budget,
            "trial_seconds": self.seconds,
        }


def trial_record(tried: Trial) -> dict[str, Any]:
    """One trial as ``--json`` prints it."""
    return {
        "rung_index": tried.rung.index,
        "rung": dict(tried.rung.values),
        "accumulation": tried.rung.accumulation,
        "effective_batch": tried.rung.effective_batch,
        "verdict": tried.verdict.kind,
        "phase": tried.verdict.phase,
        "peak_bytes": tried.verdict.peak_bytes,
        "seconds": round(tried.seconds, 3),
        "why": tried.verdict.why,
        "source": tried.verdict.source,
        "asked_bytes": tried.verdict.asked_bytes,
        "folder": str(tried.folder),
    }


def ladder_of(draft: Draft) -> Ladder:
    """The draft's ladder; nothing is run, no data is looked at. Raises BadInput with all faults."""
    faults = list(draft.faults)
    ladder: Ladder | None = None
    if draft.recipe is not None:
        try:
            ladder = wheels.ladder_of(load_adapter(draft.recipe.trainer.adapter)(draft.recipe))
        except BadInput as refused:
            faults += refused.faults
    if faults or ladder is None:
        raise BadInput(draft.provenance.placed(faults))
    return ladder


def prepare(draft: Draft) -> Job:
    """Checks everything that can be checked without running the trainer, then makes the run folder.

    Raises BadInput with all faults; nothing has been launched then, except the recipe's own ``prepare`` command.
    """
    recipe = draft.recipe
    if recipe is None:
        raise BadInput(draft.faults)
    faults = list(draft.faults)
    try:
        adapter = load_adapter(recipe.trainer.adapter)(recipe)
    except BadInput as refused:
        raise BadInput(draft.provenance.placed([*faults, *refused.faults])) from refused
    ladder = _collect(faults, lambda: wheels.ladder_of(adapter))
    budget = _collect(faults, lambda: _budget(recipe))
    if not faults:
        _collect(faults, lambda: _make_data(recipe))
    to_be_made = recipe.prepare is not None and recipe.data is not None and not Path(recipe.data).exists()
    faults += _disk_faults(Path(recipe.run.root))
    faults += [fault for fault in adapter.check() if not (to_be_made and fault.key == "data")]
    if faults or ladder is None or budget is None:
        raise BadInput(draft.provenance.placed(faults))
    folder = RunFolder.create(Path(recipe.run.root), recipe.name)
    folder.replace(folder.recipe, recipes.as_yaml(recipe))
    folder.event("prepared", recipe=recipe.name, device=budget, rungs=len(ladder.rungs), effective_batch=ladder.effective_batch)
    return Job(adapter=adapter, ladder=ladder, budget=budget, folder=folder)


LEAST_DISK_BYTES = 512 * 2**20
"""A run folder with less room than this can't take checkpoints (weights, their average and optimizer state of a small model)."""


def _disk_faults(root: Path) -> list[Fault]:
    """A disk too full for a run is told before the trials, not after the first epoch."""
    free = host.disk_free(root)
    if free >= LEAST_DISK_BYTES:
        return []
    found = f"{root} has {format_size(free)} of disk left, too little for checkpoints"
    return [Fault(key="run.root", found=found, cure="Free space there, or set run.root to a folder on another disk.")]


def _collect(faults: list[Fault], make: Callable[[], T]) -> T | None:
    """What ``make`` gives, or None with its faults added."""
    try:
        return make()
    except BadInput as refused:
        faults += refused.faults
        return None


def _budget(recipe: Recipe) -> Budget:
    device = recipe.device
    return devices.find(device.kind, index=device.index, memory_bytes=device.memory, headroom=device.headroom, share=device.share)


def fit(job: Job, screen: Screen) -> Fit:
    """Tries rungs until one fits. The record is written as it happens, and whole at the end."""
    result = Fit(job=job)
    began = time.monotonic()
    screen.plan(job)
    history: list[search.Tried] = []
    while isinstance(move := search.next_move(job.ladder, history, policy=job.recipe.ladder.search), search.Try):
        screen.trying(move.rung, len(history) + 1)
        tried = try_rung(job, move.rung)
        history.append(search.Tried(rung=tried.rung, verdict=tried.verdict))
        result.trials.append(tried)
        screen.tried(tried, job)
    job.folder.forget_cache()
    if isinstance(move, search.Chosen):
        result.chosen = next(one for one in result.trials if one.rung.index == move.rung.index)
        result.command = launch.native_command(job, move.rung)
        result.status = "done"
    elif move.why == "not_memory":
        result.status = result.trials[-1].verdict.kind.value
    result.seconds = time.monotonic() - began
    job.folder.event("fitted", status=result.status, rung_index=result.chosen.rung.index if result.chosen else None)
    job.folder.replace_json(job.folder.final, result.as_record())
    screen.summary(result)
    return result


def try_rung(job: Job, rung: Rung) -> Trial:
    """One rung, really tried and recorded."""
    job.folder.event("trial_started", rung_index=rung.index, rung=dict(rung.values), accumulation=rung.accumulation)
    tried = trial.run(job, rung)
    job.folder.event("trial_ended", **trial_record(tried))
    return tried


def train(job: Job, screen: Screen, *, show: tuple[BinaryIO, BinaryIO]) -> tuple[Fit, dict[str, Any]]:
    """Fits, then launches the full run at the rung that fits and sees it to its end. Returns the fit and the final record."""
    result = fit(job, screen)
    if result.chosen is None or result.command is None:
        return result, result.as_record()
    screen.launching(result)
    job.folder.event("run_started", rung_index=result.chosen.rung.index, command=result.command.shell())
    child = launch.start(job, result.chosen.rung, result.command, show=show)
    outcome = supervise.follow(job, child)
    results = dict(job.adapter.results(folder=job.folder.path)) if outcome.done else {}
    result.status = "done" if outcome.done else "failed"
    record = {**result.as_record(), "run": outcome, "results": results}
    job.folder.replace_json(job.folder.final, record)
    job.folder.event("finished", status=result.status, results=results)
    screen.ended(result, outcome, results)
    return result, record


def _make_data(recipe: Recipe) -> None:
    """Runs the recipe's ``prepare`` command where its data isn't there yet."""
    if recipe.prepare is None or recipe.data is None or Path(recipe.data).exists():
        return
    status, said = process.output_of(recipe.prepare)
    failed = status != 0 or not Path(recipe.data).exists()
    if failed:
        raise BadInput(
            [
                Fault(
                    key="prepare",
                    found=f"`{' '.join(recipe.prepare)}` did not make {recipe.data}: {said.strip()[-2000:]}",
                    cure="Run it by hand, or set data=.",
                )
            ]
        )


def try_one(draft: Draft, screen: Screen) -> tuple[Trial, dict[str, Any]]:
    """Tries the one rung that the recipe names (``rung``). Returns the trial and the final record."""
    last = len(ladder_of(draft).rungs) - 1
    wanted = draft.recipe.rung if draft.recipe is not None else None
    if wanted is None or wanted > last:
        found = "no rung is named" if wanted is None else f"there is no rung {wanted}"
        cure = f"Give one from 0 to {last}; `autofit ladder` numbers them."
        raise BadInput([Fault(key="rung", found=found, cure=cure, where="command line")])
    job = prepare(draft)
    rung = job.ladder.rungs[wanted]
    screen.plan(job)
    screen.trying(rung, 1)
    tried = try_rung(job, rung)
    job.folder.forget_cache()
    screen.tried(tried, job)
    screen.report(tried, job)
    record = {"status": "done", **trial_record(tried), "run_dir": str(job.folder.path), "report": tried.report}
    job.folder.replace_json(job.folder.final, record)
    return tried, record
