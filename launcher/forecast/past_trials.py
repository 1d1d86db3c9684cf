"""Keeps what trials measured, and predicts rungs from what those of earlier launches of the same training measured. Never a verdict.

A launch with another learning rate, more epochs or a newer package can't use a kept fit, but its peaks are mostly the same. If they are
not, the search wastes no more trials than with any wrong forecast: one or two.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from launcher.history import database
from launcher.history.database import HistoryUnusableError
from launcher.ladder.extrapolation import Measured
from launcher.ladder.search import Tried, seen_in
from launcher.trial.job import Job

NEWEST = 64
"""Only this many of a training's newest trials count, and of each rung only the last."""
MOST = 10_000
"""At most this many trials are kept; the oldest go first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PastTrial:
    """One trial that measured its need. Bytes."""

    training: str
    folder: str
    """The working folder of its launch."""
    device: str
    """The device's name."""
    rung: Mapping[str, Any]
    """Its values."""
    fits: bool
    need_bytes: float
    by_phase: Mapping[str, float]
    failed_in: str


def measured(job: Job) -> list[Measured]:
    """Past trials as fractions of this launch's cap. Failures under a lower cap than this launch's are left out: they show nothing here."""
    cap, newest = job.budget.cap_bytes, {_key(one.rung): one for one in reversed(_newest(job))}
    found = []
    for rung in job.ladder.rungs:
        one = newest.get(_key(rung.values))
        if one is not None and (one.fits or one.need_bytes >= cap):
            by_phase = {phase: need / cap for phase, need in one.by_phase.items()}
            found.append(Measured(rung=rung, need=one.need_bytes / cap, fits=one.fits, by_phase=by_phase, failed_in=one.failed_in))
    return found


def keep(job: Job, tried: Tried) -> None:
    """Keeps a trial for later launches, if it measured its need and the history can be used."""
    cap = job.budget.cap_bytes
    with suppress(HistoryUnusableError), database.opened() as history, history.change():
        for one in seen_in([tried]):
            past = PastTrial(
                training=job.training, folder=os.getcwd(), device=job.budget.name, rung=dict(one.rung.values), fits=one.fits,
                need_bytes=one.need * cap, by_phase={phase: need * cap for phase, need in one.by_phase.items()}, failed_in=one.failed_in,
            )  # fmt: skip
            history.execute("delete from trials where id <= ?", history.add("trials", past) - MOST)


def _newest(job: Job) -> list[PastTrial]:
    """Trials of this training on this device, newest first; none if the history can't be used."""
    condition = "where training = ? and folder = ? and device = ? order by id desc limit ?"
    with suppress(HistoryUnusableError), database.opened() as history:
        return history.rows(PastTrial, "trials", condition, job.training, os.getcwd(), job.budget.name, NEWEST)
    return []


def _key(values: Mapping[str, Any]) -> str:
    return json.dumps(dict(values), sort_keys=True, default=str)
