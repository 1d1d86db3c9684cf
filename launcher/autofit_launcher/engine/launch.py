"""A launch: finds the rung that fits, proves that it is the asked training, and runs the full training there; or takes one up again."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from autofit_launcher.adapter import build
from autofit_launcher.adapter.registry import load_adapter
from autofit_launcher.config.recipe import Draft, as_yaml
from autofit_launcher.engine import attempts, reuse
from autofit_launcher.engine.below import could_fit
from autofit_launcher.engine.prepare import QUIET, budget_in_turn, disk_faults, ladder_of, prepare, turn_of
from autofit_launcher.engine.resumption import Resumable
from autofit_launcher.engine.search import RungSearch, make_trial, misread
from autofit_launcher.engine.state import Fit, Screen, Status, status_of
from autofit_launcher.errors import BadInput, Fault, Interrupted
from autofit_launcher.full_run import start
from autofit_launcher.history import kept_fits, owner
from autofit_launcher.history.records import LadderRecord
from autofit_launcher.ladder import search
from autofit_launcher.ladder.same_training import SameTraining
from autofit_launcher.machine import process
from autofit_launcher.machine.process import Shows
from autofit_launcher.paths import tell_launched
from autofit_launcher.shared.activity import doing
from autofit_launcher.trial import proof, rung_zero
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.rung_zero import Misread
from autofit_launcher.trial.trial import Trial, as_tried

OWN_FOLDER = ("trainer.args.save_dir", "trainer.args.output_dir")
"""Keys of folders that must be empty when a run begins, and hold the run's own files when it goes on."""


def fit(job: Job, screen: Screen = QUIET) -> Fit:
    """Finds the rung that fits, without the full run."""
    result = Fit(job=job, screen=screen, fit_only=True)
    with job.turn, owner.owning(job.folder.path), recorded(result):
        walk(result)
    return result


def train(job: Job, screen: Screen = QUIET, *, show: tuple[Shows, Shows]) -> Fit:
    """Finds the rung that fits, then runs the full training there, over several attempts if need be."""
    result = Fit(job=job, screen=screen)
    with job.turn, owner.owning(job.folder.path), recorded(result):
        _carried_out(result, show)
    return result


def go_on(launch: Resumable, screen: Screen = QUIET, *, show: tuple[Shows, Shows]) -> Fit:
    """Resumes a launch: its trials if no rung had been found yet, then its full run, unless only trials were asked for."""
    os.chdir(launch.record.cwd)
    with owner.owning(launch.folder.path), ExitStack() as until_the_end:
        with doing("looking at the recipe, its data, the device and what the run has left"):
            result = _as_it_was(launch, screen, until_the_end)
        tell_launched(launch.folder.path)
        with suppress(OSError):
            reuse.begun(result.job, result.kept.digest)
        if newer := ", ".join(result.job.adapter.edited(since=launch.folder.launched())):
            screen.say(f"edited since the launch: {newer}. What runs is that, at the launch's rung")
        with recorded(result):
            _carried_out(result, show)
    return result


def _carried_out(result: Fit, show: tuple[Shows, Shows]) -> None:
    if result.chosen is None:
        walk(result)
    if result.chosen is not None and not result.fit_only:
        attempts.see_through(result, show=show)


@contextmanager
def recorded(result: Fit) -> Iterator[None]:
    """Keeps the record up to date while open, and writes the end into it, whatever ends the launch. A full disk ends nothing."""
    result.write()
    try:
        yield
    except (KeyboardInterrupt, Interrupted) as stopped:
        result.status = Status.INTERRUPTED
        signalled = stopped if isinstance(stopped, Interrupted) else Interrupted("SIGINT")
        signalled.run_dir = str(result.job.folder.path)
        raise signalled from None
    except BaseException:
        result.status = Status.STOPPED
        raise
    finally:
        result.job.folder.forget_cache()
        result.waits_for = ""
        result.told().finished(result)
        reuse.ended(result.job, result.kept.digest)


# ----------------------------------------------------------------------------------------------------------------------
# The rung


def walk(result: Fit) -> None:
    """Takes a kept fit of the same launch, or makes trials until a rung fits or nothing is left to try. ``result`` gets what was found."""
    began = time.monotonic()
    result.told().planned(result.job)
    if result.trials or not _as_kept(result):
        _search(result, began)
    result.ladder = list(_ladder(result))
    result.told().fitted(result)


MOST_RUNGS = 60
"""Rungs of a ladder that are written down: the best, which are tried first."""


def _ladder(result: Fit) -> Iterator[LadderRecord]:
    """The rungs, best first, and which failed trial rules each out, where one does."""
    ladder, history = result.job.ladder, [as_tried(one, result.job.budget.cap_bytes) for one in result.trials]
    tried = {one.rung.index for one in result.trials}
    for rung in ladder.rungs[:MOST_RUNGS]:
        by = None if rung.index in tried else search.dominated_by(ladder, rung, history)
        yield LadderRecord(**rung.told, **({"ruled_out_by": by.rung.index} if by is not None else {}))


def _search(result: Fit, began: float) -> None:
    """Makes the trials. Where the first of them shows another batch than was read, or one that can't be turned, the ladder is made anew."""
    made = RungSearch(result)
    move, run_as = made.run()
    while made.unturned:
        if _made_anew(result, made):
            result.told().planned(result.job)
            if _as_kept(result):
                return
        made = RungSearch(result)
        move, run_as = made.run()
    _concluded(result, move, run_as)
    result.trial_seconds += time.monotonic() - began
    if result.chosen is None:
        return
    if result.same is not None and result.reuse.fingerprint is not None:
        with doing("keeping the fit"):
            _known(result, reuse.keep(result.job, result.reuse, result.trials, result.chosen, result.same))
    _take(result, run_as)


def _concluded(result: Fit, move: search.Move, run_as: Job) -> None:
    """Writes the search's outcome into ``result``; if no rung fits, also what might."""
    result.status = Status.NO_RUNG_FITS
    if isinstance(move, search.Chosen):
        result.chosen = result.trial_of(move.rung.index)
        result.command = start.native_command(run_as, move.rung)
        result.status = Status.DONE
    elif isinstance(move, search.Try) or move.why == "not_memory":
        result.status = status_of(result.trials[-1].verdict.kind)
    if result.status is Status.NO_RUNG_FITS:
        result.could_fit = tuple(could_fit(result))


def _made_anew(result: Fit, search: RungSearch) -> bool:
    """Makes the ladder anew after a trial. Returns whether it is made of what ran; the trials made so far are of that ladder. Else the
    micro-batch stays as the command has it, and so does its trial, if that was the command to the letter."""
    job, wrong = result.job, search.misread
    adapter, believed = rung_zero.anew(job.adapter, wrong)
    ladder = build.ladder_of(adapter)
    result.misread = replace(wrong, believed=believed) if wrong is not None and wrong.read else result.misread
    result.unturned = "" if believed else search.unturned
    if believed:
        result.trials[:] = rung_zero.as_believed(result.trials, ladder)
    elif result.trials[-1].told_less:
        result.trials.clear()
    then = "What ran is what was asked: the ladder is made of that" if believed else "So its micro-batch isn't turned"
    result.told().say(f"{search.unturned}. {then}")
    _take(result, replace(job, adapter=adapter, ladder=ladder))
    return believed


def _take(result: Fit, job: Job) -> None:
    """The launch continues with this job, and ``autofit resume`` will start from its recipe."""
    if job is not result.job:
        job.folder.replace(job.folder.recipe, as_yaml(job.recipe))
        result.job = job


def _as_kept(result: Fit) -> bool:
    """Takes over the trials of an earlier launch if nothing that they depend on has changed. Returns whether it did."""
    job = result.job
    with doing("looking whether a kept fit holds: the data, the models, the packages"):
        found = reuse.look_up(job)
    trials = reuse.trials_of(found.fit, job) if found.used and found.fit is not None else []
    if trials and _unseen(job, trials):
        why = "no kept fit holds: its trials don't show that the command was read right"
        trials, found = [], replace(found, used=False, fit=None, why=why)
    if trials and found.fit is not None:
        result.trials, result.same = trials, SameTraining.from_record(found.fit.same)
        result.sames[found.fit.rung_index] = result.same
        _take(result, proof.with_cure(job, result.same.cure))
        result.chosen = next(one for one in reversed(trials) if one.rung.index == found.fit.rung_index)
        result.command = start.native_command(result.job, result.chosen.rung)
        result.status = Status.DONE
    _known(result, found)
    return result.chosen is not None


def _unseen(job: Job, trials: Sequence[Trial]) -> bool:
    """Tells whether the trials of a user's own command disprove what was read of it, or don't show it."""
    asked = next((one for one in trials if one.rung.index == 0), None)
    return job.adapter.general and (asked is None or misread(job, asked) is not None)


def _known(result: Fit, found: reuse.Reuse) -> None:
    """Writes what is known of kept fits into the record, and tells it once: that one is used, or why none is used or kept."""
    before, result.reuse, result.kept = result.reuse.why, found, found.as_record()
    if found.used and found.fit is not None:
        made = kept_fits.day(found.fit.made)
        no_trials = "nothing that it depends on has changed, so no trials are made (trial.fresh=true makes them)"
        result.told().say(f"kept fit of {made}: {no_trials}", "green")
    elif found.fingerprint is not None and found.why not in ("", before):  # else nobody expects one
        result.told().say(found.why, "dim")


def try_one(draft: Draft, screen: Screen) -> tuple[Trial, dict[str, Any]]:
    """Tries only the rung that the recipe names (``rung``). Returns the trial and the final record."""
    last = len(ladder_of(draft).rungs) - 1
    wanted = draft.recipe.rung if draft.recipe is not None else None
    if wanted is None or wanted > last:
        found = "no rung is named" if wanted is None else f"there is no rung {wanted}"
        cure = f"Give one from 0 to {last}; `autofit ladder` numbers them."
        raise BadInput([Fault(key="rung", found=found, cure=cure, where="command line")])
    job = prepare(draft, screen)
    screen.planned(job)
    with job.turn, owner.owning(job.folder.path):
        tried = make_trial(Fit(job=job, screen=screen, fit_only=True), job.ladder.rungs[wanted])
        if (wrong := misread(job, tried)) is not None:
            screen.say(f"{wrong.words(job.adapter.asked.read_at)}. So its micro-batch isn't turned")
    job.folder.forget_cache()
    record = {"status": "done", **tried.as_record(), "run_dir": str(job.folder.path), "report": tried.report}
    job.folder.replace_json(job.folder.record, record)
    return tried, record


# ----------------------------------------------------------------------------------------------------------------------
# A launch as its folder has it


def _as_it_was(launch: Resumable, screen: Screen, until_the_end: ExitStack) -> Fit:
    """The launch as its folder has it; changes nothing. Raises BadInput if it can't be resumed here and now."""
    recipe, record = launch.recipe, launch.record
    adapter = load_adapter(recipe.trainer.adapter)(recipe)
    ladder = build.ladder_of(adapter)
    made, (trials, sames) = launch.attempts(ladder), launch.trials(ladder)
    full = disk_faults(Path(recipe.run.root)) + [fault for fault in adapter.check() if fault.key not in OWN_FOLDER]
    if full:
        raise BadInput(launch.draft.provenance.placed(full))
    with doing("waiting for the processes of the run to end"):
        left = process.wait_for_leftovers(launch.folder.path)
    if left:
        found = f"processes of it are still there: {', '.join(map(str, left))}"
        raise BadInput([Fault(key="", where=str(launch.folder.path), found=found, cure="End them, or wait until they have ended.")])
    turn = until_the_end.enter_context(turn_of(recipe, screen))
    budget = budget_in_turn(recipe, waited=turn.waited)
    job = Job(adapter=adapter, ladder=ladder, budget=budget, folder=launch.folder, turn=turn, say=screen.say)
    result = Fit(job=job, screen=screen, trials=trials, sames=sames, attempts=made, forgiven=len(made), kept=record.kept)
    result.fit_only = bool(record.fit_only)
    result.began, result.ladder, result.trial_seconds = record.began or result.began, record.ladder, record.trial_seconds
    if not recipe.trial.fresh:
        result.reuse = reuse.Reuse(failures=kept_fits.of(job.training, record.kept.digest or "").failures_at(budget.cap_bytes))
    if record.misread is not None and record.misread.believed:
        result.misread = Misread(read=record.misread.read, ran=record.misread.ran, believed=True)
    if record.same_training is not None:
        result.same, result.refused = SameTraining.from_record(record.same_training.written()), record.same_training.refused
    if record.chosen_rung_index is not None:
        result.chosen = next(one for one in reversed(result.trials) if one.rung.index == record.chosen_rung_index)
        result.command = start.native_command(job, result.chosen.rung)
    return result
