"""Predicts rungs from what trials of earlier launches of the same training measured. Never a verdict.

A person launches again with another learning rate, more epochs, a newer package: what was kept of the fit doesn't hold then, but the peaks
are mostly the same. Where they aren't, the search is led astray by what a hopeless forecast may cost, and no more.
Kept in autofit's data folder, one line for each trial. A torn line is passed over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from launcher.history import jsonl
from launcher.ladder.extrapolation import Seen
from launcher.ladder.search import Tried, seen_in
from launcher.paths import data_folder
from launcher.trial.job import Job

FILE = "trials.jsonl"
NEWEST = 64
"""So many of the newest trials of a training count, and of each rung the last."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One trial. Bytes."""

    training: str
    """Its recipe's name, its adapter and the folder it is launched from."""
    device: str
    """The device's name, as in ``peaks``."""
    values: Mapping[str, Any]
    """Of the rung."""
    fits: bool
    need_bytes: float
    by_phase: Mapping[str, float]
    failed_in: str


def training(job: Job) -> str:
    return f"{job.recipe.name} ({job.adapter.name}) in {os.getcwd()}"


def of(job: Job) -> list[Seen]:
    """As parts of this launch's cap. A failure under a cap that was lower than this one's is left out: it bounds nothing here."""
    cap, newest = job.budget.cap_bytes, {_key(line.values): line for line in _lines(job)[-NEWEST:]}
    found = []
    for rung in job.ladder.rungs:
        line = newest.get(_key(rung.values))
        if line is not None and (line.fits or line.need_bytes >= cap):
            by_phase = {phase: need / cap for phase, need in line.by_phase.items()}
            found.append(Seen(rung=rung, need=line.need_bytes / cap, fits=line.fits, by_phase=by_phase, failed_in=line.failed_in))
    return found


def keep(job: Job, tried: Tried) -> None:
    """For the launches to come; a trial that measured nothing tells them nothing. A folder that can't be written keeps nothing."""
    cap = job.budget.cap_bytes
    told = [
        Line(
            training=training(job),
            device=job.budget.name,
            values=dict(one.rung.values),
            fits=one.fits,
            need_bytes=one.need * cap,
            by_phase={phase: need * cap for phase, need in one.by_phase.items()},
            failed_in=one.failed_in,
        )
        for one in seen_in([tried])
    ]
    jsonl.add(file(), map(asdict, told))


def file() -> Path:
    return data_folder() / FILE


def _lines(job: Job) -> list[Line]:
    """Of this training on this device, oldest first."""
    of_this = (training(job), job.budget.name)
    return [line for line in jsonl.read(file(), Line) if (line.training, line.device) == of_this]


def _key(values: Mapping[str, Any]) -> str:
    return json.dumps(dict(values), sort_keys=True, default=str)
