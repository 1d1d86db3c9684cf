"""Where no rung fits: tries lower micro-batches beyond the ladder, so that the end can say which command would fit."""

from __future__ import annotations

from dataclasses import replace

from launcher.engine.state import Fit
from launcher.engine.trials import make_trial
from launcher.errors import BadInput
from launcher.ladder import build
from launcher.ladder.rungs import MICRO_BATCH, Rung
from launcher.ladder.verdict import Kind
from launcher.trial.job import Job

MOST_BELOW = 4
"""The most trials of settings beyond the ladder."""


def look_below(result: Fit) -> None:
    """Where only the effective batch keeps the micro-batch up: tries lower ones, so that the end can say which command would fit.

    Nothing is launched at them; ``ladder.keep_batch=false`` (``--allow-batch``) accepts such a setting.
    """
    job = result.job
    micro = next(wheel for wheel in job.ladder.wheels if wheel.name == MICRO_BATCH)
    left_out = [trial for trial in result.trials if trial.verdict.source == "accumulation" or (result.refused and trial.verdict.fits)]
    refused = bool(left_out)
    memory = all(trial.verdict.kind is Kind.OUT_OF_MEMORY or trial in left_out for trial in result.trials)
    fixed = type(job.adapter).general and len(micro.values) == 1
    if not job.recipe.ladder.keep_batch or not memory or not (refused or fixed):
        return
    below, made = _below(job), list(result.trials)  # a list of their own: the record's trials are those of the ladder
    most, why = len(made) + len(below), "no rung fits; this one would change the effective batch, and is tried for advice alone"
    for freed, rung in below:
        tried = make_trial(freed, rung, made, most=most, why=why)
        if tried.verdict.fits:
            result.nearest, result.nearest_command = tried, job.adapter.command(rung, job.on(rung).budget, folder=job.folder.path)
        if tried.verdict.fits or not tried.verdict.lower_rung_may_help:
            return


def _below(job: Job) -> list[tuple[Job, Rung]]:
    """Rungs with only the micro-batch lowered and accumulation as asked, numbered after the ladder's own; none where they can't be."""
    rules = job.recipe.ladder.model_copy(update={"keep_batch": False, "order": (MICRO_BATCH,), "wheels": {}})
    adapter = type(job.adapter)(job.recipe.model_copy(update={"ladder": rules}))
    try:
        if adapter.check():
            return []
        ladder = build.ladder_of(adapter)
    except BadInput:
        return []
    below = [rung for rung in ladder.rungs[1:] if rung.micro_batch < job.ladder.asked.micro_batch][:MOST_BELOW]
    beyond = len(job.ladder.rungs)
    return [(replace(job, adapter=adapter), replace(rung, index=beyond + at)) for at, rung in enumerate(below)]
