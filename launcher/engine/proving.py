"""Proves, once per launch, that the rung to be launched is the asked training. ``trial.proof`` runs the twins."""

from __future__ import annotations

from dataclasses import replace

from launcher.engine.events import Proven
from launcher.engine.state import Fit
from launcher.ladder import course
from launcher.ladder.rungs import Rung
from launcher.ladder.same_training import GIVEN_UP, PROVEN, as_asked
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
        with doing(f"running the same rows in two layouts: is an update at rung {rung.index} the asked one?"):
            found = proof.prove(job, rung)
    same = found.same if found.refused else proof.of_exact(found.job or job, rung, found.same)
    if same.gradient == PROVEN and (less := course.given_up(job.ladder, rung, job.recipe.ladder.wheels)):
        same = replace(same, gradient=f"{GIVEN_UP}: {less}")
    if twins and job is not result.job and (before := result.same) is not None:
        notes = [*before.notes, *(note for note in same.notes if note not in before.notes)]
        same = replace(same, cure={**before.cure, **same.cure}, notes=tuple(notes))
    result.same, result.refused = same, found.refused or result.refused
    result.sames[rung.index] = same
    job.tell(Proven(rung=rung, same=same, refused=found.refused, twins=twins or bool(same.seconds)))
    return replace(found, same=same)
