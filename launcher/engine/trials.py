"""Makes trials: each is told, written down, and its peaks are kept for later launches. Nothing else in the engine makes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from launcher.adapter.protocol import own_words_of
from launcher.engine.screen import Screen
from launcher.forecast import past_trials
from launcher.ladder.rungs import Rung
from launcher.trial import rung_zero, trial
from launcher.trial.job import Job
from launcher.trial.rung_zero import Misread
from launcher.trial.trial import Trial, as_tried


def make_trial(job: Job, rung: Rung, screen: Screen, *, number: int, words: Mapping[str, Any] | None = None) -> Trial:
    """One trial, told, and its peaks kept for the launches to come."""
    screen.trying(rung, number, **(words or {}))
    tried = trial.recorded(job, rung, told=screen.phase)
    if misread_at_rung_0(job, tried) is None:  # else it measured another rung
        past_trials.keep(job, as_tried(tried, job))
    screen.tried(tried, job)
    return tried


def misread(job: Job, trials: Sequence[Trial]) -> Misread | None:
    """Where the trials of a person's own command disprove what was read of it."""
    words = own_words_of(job.adapter)
    return rung_zero.found(trials, job.ladder, unsaid=words.unsaid()) if words is not None else None


def misread_at_rung_0(job: Job, tried: Trial) -> Misread | None:
    """The same of one trial, which tells something only where it is rung 0's."""
    words = own_words_of(job.adapter)
    return rung_zero.at_rung_0(tried, unsaid=words.unsaid()) if words is not None else None
