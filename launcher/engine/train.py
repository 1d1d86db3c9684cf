"""Finds the rung that fits and runs the full training there to its end; or resumes a launch that was interrupted or has failed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from launcher.adapter.registry import load_adapter
from launcher.engine import attempts, fit, reuse
from launcher.engine.events import Resumed
from launcher.engine.prepare import budget_in_turn, budgets_by_cards, disk_faults, turn_of
from launcher.engine.resumption import Resumable
from launcher.engine.state import Fit, recorded
from launcher.errors import BadInput, Fault
from launcher.history import owner
from launcher.history.events import Listener
from launcher.ladder import build
from launcher.ladder.same_training import SameTraining
from launcher.machine import process
from launcher.machine.process import Shows
from launcher.paths import tell_launched
from launcher.run import start
from launcher.shared.activity import doing
from launcher.trial.job import Job
from launcher.trial.rung_zero import Misread


def train(job: Job, *, show: tuple[Shows, Shows]) -> Fit:
    """Finds the rung that fits, then runs the full training there, over several attempts if need be."""
    result = Fit(job=job)
    with job.turn, owner.owning(job.folder.path), recorded(result):
        fit.walk(result)
        if result.chosen is not None and result.command is not None:
            attempts.see_through(result, show=show)
    return result


def go_on(launch: Resumable, *listeners: Listener, show: tuple[Shows, Shows]) -> Fit:
    """Resumes a launch: its trials if no rung had been found yet, then its full run, unless only trials were asked for."""
    os.chdir(launch.cwd)
    with owner.owning(launch.folder.path), ExitStack() as until_the_end:
        with doing("looking at the recipe, its data, the device and what the run has left"):
            result, edited = _as_it_was(launch, listeners, until_the_end)
        tell_launched(launch.folder.path)
        reuse.resumed(result.job, result.digest)
        result.job.tell(Resumed(attempts=len(result.attempts), trials=len(result.trials), edited=tuple(edited)))
        with recorded(result):
            if result.chosen is None:
                fit.walk(result)
            if result.chosen is not None and result.command is not None and not result.fit_only:
                attempts.see_through(result, show=show)
    return result


def _as_it_was(launch: Resumable, listeners: Sequence[Listener], until_the_end: ExitStack) -> tuple[Fit, Sequence[str]]:
    """(the launch as its folder has it, what the person has edited since); nothing is changed. Raises BadInput if it can't be resumed here
    and now."""
    recipe, record = launch.draft.recipe, launch.record
    assert recipe is not None
    adapter = load_adapter(recipe.trainer.adapter)(recipe)
    ladder = build.ladder_of(adapter)
    made = launch.attempts(ladder)
    read = record.misread.read if record.misread is not None else {}
    full = disk_faults(Path(recipe.run.root)) + [fault for fault in adapter.check() if fault.key not in OWN_FOLDER]
    changed = adapter.changed(since=launch.folder.launched(), read=read)
    if full or changed.faults:
        raise BadInput(launch.draft.provenance.placed(full or list(changed.faults)))
    with doing("waiting for the processes of the run to end"):
        left = process.wait_for_leftovers(launch.folder.path)
    if left:
        found = f"processes of it are still there: {', '.join(map(str, left))}"
        raise BadInput([Fault(key="", where=str(launch.folder.path), found=found, cure="End them, or wait until they have ended.")])
    turn = until_the_end.enter_context(turn_of(recipe, listeners))
    budget = budget_in_turn(recipe, waited=turn.waited)
    by_cards = budgets_by_cards(recipe, ladder)
    job = Job(adapter=adapter, ladder=ladder, budget=budget, by_cards=by_cards, folder=launch.folder, turn=turn, listeners=[*listeners])
    result = Fit(job=job, trials=launch.trials(ladder), attempts=made, forgiven=len(made), fit_only=launch.fit_only)
    result.began = record.began or result.began
    if record.misread is not None and record.misread.believed:
        result.misread = Misread(read=read, ran=record.misread.ran, rung_index=record.misread.rung_index, believed=True)
    result.digest, chosen = record.kept.digest, record.chosen_rung_index
    result.same = SameTraining.from_record(record.same_training.written()) if record.same_training is not None else None
    result.sames = {
        one.rung_index: SameTraining.from_record(one.same_training.written()) for one in record.trials if one.same_training is not None
    }
    if chosen is not None:
        result.chosen = next(one for one in reversed(result.trials) if one.rung.index == chosen)
        result.command = start.native_command(job, result.chosen.rung)
    return result, changed.told


OWN_FOLDER = ("trainer.args.save_dir", "trainer.args.output_dir")
"""Keys of folders that must be empty when a run begins, and hold the run's own files when it goes on."""
