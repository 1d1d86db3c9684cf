"""Finds the rung to launch: reuses a kept fit, else tries rungs until one fits, then proves that it is the asked training."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from launcher.config.recipe import Draft, as_yaml
from launcher.engine import reuse
from launcher.engine.below import look_below
from launcher.engine.events import Fitted, KeptFits, MisreadFound, Planned, TrialReported
from launcher.engine.prepare import ladder_of, prepare
from launcher.engine.reuse import ProvenFit
from launcher.engine.search import RungSearch
from launcher.engine.state import Fit, Status, recorded, status_of
from launcher.engine.trials import make_trial, misread, misread_at_rung_0
from launcher.errors import PLACE, BadInput, Fault
from launcher.history import owner
from launcher.history.events import Listener
from launcher.ladder import build, search
from launcher.ladder.same_training import SameTraining
from launcher.run import start
from launcher.shared.activity import doing
from launcher.trial import proof, rung_zero
from launcher.trial.job import Job
from launcher.trial.rung_zero import Misread
from launcher.trial.trial import Trial


def fit(job: Job) -> Fit:
    """Finds the rung that fits, without the full run. The record is kept up to date from the first moment to the end."""
    result = Fit(job=job, fit_only=True)
    with job.turn, owner.owning(job.folder.path), recorded(result):
        walk(result)
    return result


def walk(result: Fit) -> None:
    """Takes a kept fit of the same launch, or makes trials until a rung fits or nothing is left to try. ``result`` gets what was found."""
    began = time.monotonic()
    result.job.tell(Planned(job=result.job))
    if result.trials or not _as_kept(result):
        _search(result, began)
    result.job.tell(Fitted(fit=result))


def _search(result: Fit, began: float) -> None:
    """Makes the trials. If the first of them shows that the command was misread, the ladder is rebuilt from what ran, once."""
    move, run_as = RungSearch(result).run()
    if result.misread is not None and not result.misread.believed and _made_anew(result):
        result.job.tell(Planned(job=result.job))
        if _as_kept(result):
            return
        move, run_as = RungSearch(result).run()
    _concluded(result, move, run_as)
    result.trial_seconds = time.monotonic() - began
    if result.chosen is not None and result.reuse is not None and result.same is not None:
        with doing("keeping the fit"):
            result.reuse = reuse.keep(result.job, result.reuse, ProvenFit(trials=result.trials, chosen=result.chosen, same=result.same))
        _known(result)
    if result.chosen is not None:
        _take(result, run_as)


def _concluded(result: Fit, move: search.Move, run_as: Job) -> None:
    """Writes the search's outcome into ``result``; if no rung fits, looks for what would fit."""
    job, result.status = result.job, Status.NO_RUNG_FITS
    if result.misread is not None and not result.misread.believed:
        result.status = Status.MISREAD
        _tell_misread(job, result.misread)
    elif isinstance(move, search.Chosen):
        result.chosen = result.trial_of(move.rung.index)
        result.command = start.native_command(run_as, move.rung)
        result.status = Status.DONE
    elif isinstance(move, search.Try) or move.why == "not_memory":
        result.status = status_of(result.trials[-1].verdict.kind)
    job.folder.forget_cache()
    if result.status is Status.NO_RUNG_FITS:
        look_below(result)


def _made_anew(result: Fit) -> bool:
    """Rebuilds the ladder from what the command really ran, in place of what was read. Returns False if that can't be done."""
    job, wrong = result.job, result.misread
    believed = job.adapter.believing(wrong.ran) if wrong is not None and wrong.read else None
    if believed is None or wrong is None:
        return False
    adapter = type(job.adapter)(believed)
    if adapter.check():
        return False
    result.misread = replace(wrong, believed=True)
    result.trials.clear()
    _tell_misread(job, result.misread)  # first, the record with it: a trial of the other ladder says nothing of this one's rungs
    _take(result, replace(job, adapter=adapter, ladder=build.ladder_of(adapter)))
    return True


def _tell_misread(job: Job, wrong: Misread) -> None:
    job.tell(MisreadFound(misread=wrong, words=rung_zero.words(wrong, job.adapter.asked.read_at)))


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
    result.reuse = found
    if found.used and found.fit is not None:
        result.trials = reuse.trials_of(found.fit, job)
        if _unseen(job, result.trials):
            result.trials.clear()
            why = "no kept fit holds: its trials don't show that the command was read right"
            result.reuse = found = replace(found, used=False, fit=None, why=why)
    if found.used and found.fit is not None:
        result.same = SameTraining.from_record(found.fit.same)
        result.sames[found.fit.rung_index] = result.same
        _take(result, proof.with_cure(job, result.same.cure))
        job = result.job
        result.chosen = result.trial_of(found.fit.rung_index)
        assert result.chosen is not None
        result.command = start.native_command(job, result.chosen.rung)
        result.status = Status.DONE
    _known(result)
    return result.chosen is not None


def _unseen(job: Job, trials: Sequence[Trial]) -> bool:
    """Whether the trials of a user's own command disprove what was read of it, or don't show it."""
    if not job.adapter.general:
        return False
    return not any(one.rung.index == 0 for one in trials) or misread(job, trials) is not None


def _known(result: Fit) -> None:
    """Writes what is known of kept fits into the record, and tells it."""
    assert result.reuse is not None
    result.digest = result.reuse.fingerprint.digest if result.reuse.fingerprint is not None else None
    result.job.tell(KeptFits(reuse=result.reuse))


def try_one(draft: Draft, screen: Listener) -> tuple[Trial, dict[str, Any]]:
    """Tries only the rung that the recipe names (``rung``). Returns the trial and the final record."""
    last = len(ladder_of(draft).rungs) - 1
    wanted = draft.recipe.rung if draft.recipe is not None else None
    if wanted is None or wanted > last:
        found = "no rung is named" if wanted is None else f"there is no rung {wanted}"
        cure = f"Give one from 0 to {last}; `autofit ladder` numbers them."
        raise BadInput([Fault(key="rung", found=found, cure=cure, where="command line")])
    job = prepare(draft, screen)
    job.tell(Planned(job=job))
    with job.turn, owner.owning(job.folder.path):
        tried = make_trial(job, job.ladder.rungs[wanted], [])
        if (wrong := misread_at_rung_0(job, tried)) is not None:
            found = rung_zero.words(wrong, job.adapter.asked.read_at)
            raise BadInput([Fault(key="ask", found=found, cure=rung_zero.cure(wrong), where=PLACE)])
    job.folder.forget_cache()
    job.tell(TrialReported(job=job, trial=tried))
    record = {"status": "done", **tried.as_record(), "run_dir": str(job.folder.path), "report": tried.report}
    job.folder.replace_json(job.folder.record, record)
    return tried, record
