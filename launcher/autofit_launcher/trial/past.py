"""Keeps what trials measured, one line of JSON a trial, for later launches of the same training on the same device, from the same folder.

Another learning rate, more epochs or a newer package end a kept fit and mostly leave the peaks as they were. No launch depends on the
file: what can't be written is not kept, and a line that can't be read is passed over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from autofit_launcher import paths
from autofit_launcher.common import files
from autofit_launcher.ladder.search import Tried, tells
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.trial import Trial, as_tried


def file() -> Path:
    return paths.state_folder() / "trials.jsonl"


def keep(job: Job, trial: Trial) -> None:
    """Adds a trial, in bytes, if it says anything of what its rung needs."""
    cap, path = job.budget.cap_bytes, file()
    tried = as_tried(trial, cap)
    if not tells(tried):
        return
    line = json.dumps({
        **_of(job), "rung": dict(tried.rung.values), "fits": tried.verdict.fits, "phase": tried.verdict.phase,
        "need_bytes": (tried.need or 0.0) * cap, "by_phase": {phase: need * cap for phase, need in tried.by_phase.items()},
    }, default=str)  # fmt: skip
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as lines:
            lines.write(f"\n{line}" if lines.tell() else line)  # a torn line spoils no other


def of(job: Job) -> list[Tried]:
    """Returns the last trial of each rung, in parts of this launch's cap. A failure under a lower cap shows nothing here."""
    cap, rungs, found = job.budget.cap_bytes, {_key(rung.values): rung for rung in job.ladder.rungs}, dict[int, Tried]()
    for said in _lines(job):
        with suppress(KeyError, TypeError, AttributeError):  # another ladder's rung; another version's line
            rung, kind = rungs[_key(said["rung"])], Kind.FITS if said["fits"] else Kind.OUT_OF_MEMORY
            verdict = Verdict(kind=kind, phase=said["phase"], why="")
            by_phase = {phase: need / cap for phase, need in said["by_phase"].items()}
            found[rung.index] = Tried(rung=rung, verdict=verdict, need=said["need_bytes"] / cap, by_phase=by_phase)
    return [one for _, one in sorted(found.items()) if one.verdict.fits or (one.need or 0.0) >= 1.0]


def _of(job: Job) -> dict[str, str]:
    return {"folder": os.getcwd(), "training": job.training, "device": job.budget.name}


def _lines(job: Job) -> list[dict[str, Any]]:
    """Reads the trials that are kept of this training, oldest first."""
    found: list[Any] = []
    with suppress(OSError):
        for line in files.read(file(), mine=True).splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
    return [said for said in found if isinstance(said, dict) and _of(job).items() <= said.items()]


def _key(values: Mapping[str, Any]) -> str:
    return json.dumps(dict(values), sort_keys=True, default=str)
