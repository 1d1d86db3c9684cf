"""Proves, once per launch, that the rung to be launched is the asked training. ``trial.proof`` runs the twins."""

from __future__ import annotations

from dataclasses import replace

from launcher.engine.events import Proven
from launcher.engine.state import Fit
from launcher.ladder import course
from launcher.ladder.rungs import Rung
from launcher.ladder.same_training import as_asked, with_earlier_cure
from launcher.shared.activity import doing
from launcher.trial import proof
from launcher.trial.job import Job
from launcher.trial.proof import Proof


def prove(result: Fit, rung: Rung, job: Job) -> Proof:
    """Whether the rung is the asked training. Runs twins if it accumulates more than asked; tells the result as an event.

    ``job``: the launch, with the cure that an earlier proof has found, if there was one.
    """
    twins = proof.needed(job, rung)
    if not twins:
        found = _by_its_trial(result, rung, Proof(same=as_asked(job.ladder, rung)))
    else:
        with doing(f"running the same rows in other layouts: is an update at rung {rung.index} the asked one?"):
            found = _by_its_trial(result, rung, proof.prove(job, rung))
        if job is not result.job and result.same is not None:
            found = replace(found, same=with_earlier_cure(found.same, result.same))
    result.same, result.refused = found.same, found.refused or result.refused
    result.sames[rung.index] = found.same
    job.tell(Proven(rung=rung, same=found.same, refused=found.refused, twins=twins))
    return found


def _by_its_trial(result: Fit, rung: Rung, found: Proof) -> Proof:
    """Adds to the proof where the rung's own trial shows other optimizer steps, samples or evaluation points than rung 0's."""
    ladder, asked, tried = result.job.ladder, result.trial_of(0), result.trial_of(rung.index)
    if not rung.index or asked is None or tried is None or rung.effective_batch != ladder.effective_batch:
        return found
    less, two = course.given_up(ladder, rung), (course.shown(tried.report, rung), course.shown(asked.report, asked.rung))
    same = course.held_against(found.same, *two, batch=ladder.effective_batch, less=less)
    refused = (
        course.refusal(found.same, *two, batch=ladder.effective_batch, less=less) if rung.accumulation > ladder.asked.accumulation else ""
    )
    return replace(found, same=same, refused=found.refused or refused)
