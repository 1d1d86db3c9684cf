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
    """Whether the rung is the asked training. Runs twins if it accumulates more than asked or checkpoints from outside; tells the result.

    ``job``: the launch, with the cure that an earlier proof has found, if there was one.
    """
    twins = proof.needed(job, rung)
    if not twins:
        found = Proof(same=as_asked(job.ladder, rung))
    else:
        with doing(f"running the same rows in other layouts: is an update at rung {rung.index} the asked one?"):
            found = proof.prove(job, rung)
    if not found.refused:
        found = replace(found, same=proof.of_exact(found.job or job, rung, found.same))
    found = _by_its_trial(result, rung, found)
    if twins and job is not result.job and result.same is not None:
        found = replace(found, same=with_earlier_cure(found.same, result.same))
    if not job.recipe.ladder.keep_update:
        found = replace(found, refused="")
    result.same, result.refused = found.same, found.refused or result.refused
    result.sames[rung.index] = found.same
    job.tell(Proven(rung=rung, same=found.same, refused=found.refused, twins=twins or bool(found.same.seconds)))
    return found


def _by_its_trial(result: Fit, rung: Rung, found: Proof) -> Proof:
    """Adds to the proof where the rung's own trial shows other optimizer steps, samples or evaluation points than rung 0's."""
    ladder, asked, tried = result.job.ladder, result.trial_of(0), result.trial_of(rung.index)
    if not rung.index or rung.effective_batch != ladder.effective_batch:
        return found
    less = course.given_up(ladder, rung, result.job.recipe.ladder.wheels)
    two = [course.shown(one.report, one.rung) if one is not None else course.Course() for one in (tried, asked)]
    same = course.held_against(found.same, *two, batch=ladder.effective_batch, less=less)
    refused = (
        course.refusal(found.same, *two, batch=ladder.effective_batch, less=less) if rung.accumulation > ladder.asked.accumulation else ""
    )
    return replace(found, same=same, refused=found.refused or refused)
