"""Makes trials. Each is told as an event, recorded, and its peaks kept for later launches. The engine's only way to make one."""

from __future__ import annotations

from collections.abc import Sequence

from launcher.history import past_trials
from launcher.ladder import earlier
from launcher.ladder.rungs import Rung
from launcher.ladder.search import Tried
from launcher.trial import rung_zero, trial
from launcher.trial.events import TrialEnded, TrialStarted
from launcher.trial.job import Job
from launcher.trial.rung_zero import Misread
from launcher.trial.trial import Trial, as_tried


def make_trial(job: Job, rung: Rung, made: list[Trial], *, most: int | None = None, why: str = "") -> Trial:
    """Tries a rung and appends the trial to ``made``.

    ``most``: the most trials that this launch can make; ``why``: the reason for choosing this rung. Both are for the screen.
    """
    took = [one.seconds for one in made if not one.kept]
    mean = sum(took) / len(took) if took else None
    job.tell(TrialStarted(rung=rung, number=len(made) + 1, most=most, mean_seconds=mean, why=why))
    tried = trial.run(job, rung)
    if misread_at_rung_0(job, tried) is None:  # else it measured another rung
        _keep(job, as_tried(tried, job.budget.cap_bytes))
    made.append(tried)
    job.tell(TrialEnded(trial=tried, budget=job.on(rung).budget))
    return tried


def _keep(job: Job, tried: Tried) -> None:
    past = earlier.as_past(tried, training=job.training, device=job.budget.name, cap_bytes=job.budget.cap_bytes)
    if past is not None:
        past_trials.keep(past)


def of_earlier_launches(job: Job) -> Sequence[Tried]:
    """What trials of earlier launches of the same training on this device measured, as parts of this launch's cap."""
    return earlier.on(job.ladder, past_trials.of(job.training, device=job.budget.name), cap_bytes=job.budget.cap_bytes)


def misread(job: Job, trials: Sequence[Trial]) -> Misread | None:
    """How the trials disprove what was read of a user's own command; None if they don't."""
    return rung_zero.found(trials, job.ladder, unsaid=job.adapter.asked.unsaid) if job.adapter.general else None


def misread_at_rung_0(job: Job, tried: Trial) -> Misread | None:
    """The same for one trial; None unless it is a trial of rung 0."""
    return rung_zero.at_rung_0(tried, unsaid=job.adapter.asked.unsaid) if job.adapter.general else None
