"""Makes trials: each is told, written down, and its peaks are kept for later launches. Nothing else in the engine makes one."""

from __future__ import annotations

from collections.abc import Sequence

from launcher.adapter.protocol import OwnWords, ability
from launcher.forecast import past_trials
from launcher.ladder.rungs import Rung
from launcher.trial import rung_zero, trial
from launcher.trial.events import TrialEnded, TrialStarted
from launcher.trial.job import Job
from launcher.trial.rung_zero import Misread
from launcher.trial.trial import Trial, as_tried


def make_trial(job: Job, rung: Rung, made: list[Trial], *, most: int | None = None, why: str = "") -> Trial:
    """One trial, told, put behind those that were ``made`` before, and its peaks kept for the launches to come.

    ``most``: trials that there will be at most; ``why`` it is just this rung.
    """
    took = [one.seconds for one in made if not one.kept]
    mean = sum(took) / len(took) if took else None
    job.tell(TrialStarted(rung=rung, number=len(made) + 1, most=most, mean_seconds=mean, why=why))
    tried = trial.run(job, rung)
    if misread_at_rung_0(job, tried) is None:  # else it measured another rung
        past_trials.keep(job, as_tried(tried, job))
    made.append(tried)
    job.tell(TrialEnded(trial=tried, budget=job.budget))
    return tried


def misread(job: Job, trials: Sequence[Trial]) -> Misread | None:
    """Where the trials of a person's own command disprove what was read of it."""
    words = ability(job.adapter, OwnWords)
    return rung_zero.found(trials, job.ladder, unsaid=words.unsaid()) if words is not None else None


def misread_at_rung_0(job: Job, tried: Trial) -> Misread | None:
    """The same of one trial, which tells something only where it is rung 0's."""
    words = ability(job.adapter, OwnWords)
    return rung_zero.at_rung_0(tried, unsaid=words.unsaid()) if words is not None else None
