"""Reads and writes ``submission.json``, the SLURM job that a launch was handed to, and what SLURM says of the job."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from autofit_launcher.common import files

NAME = "submission.json"
WORDS = "slurm"
"""Folder of the job's script, and of what autofit said in the job."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """A launch that was handed to SLURM."""

    job: Annotated[str, Field(pattern=r"^(\d[\w+]*)?$")]
    """The job's id; empty until SLURM has taken it."""
    name: str
    """The job's name: the run folder's. By it a job of the same id on another cluster isn't taken for ours."""
    cwd: str
    """Folder in which it was typed: relative paths count from there."""
    handed_in: float
    """Seconds since 1970."""
    fit_only: bool = False
    """True: only trials were asked for."""

    def log(self, folder: Path) -> Path:
        """File of what autofit said in the job, through all its starts."""
        return folder / WORDS / f"{self.job}_0_log.out"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSeen:
    """SLURM's word on a job."""

    state: str
    """State in SLURM's word; empty for a job that it doesn't know, or not any more."""
    reason: str = ""

    @property
    def waits(self) -> bool:
        """The job is queued, for the first time or again."""
        return self.state in ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")

    @property
    def runs(self) -> bool:
        return self.state in ("RUNNING", "COMPLETING", "SIGNALING", "STAGE_OUT", "STOPPED", "SUSPENDED", "RESIZING")

    @property
    def is_there(self) -> bool:
        """The job waits or runs."""
        return self.waits or self.runs


_SHAPE = TypeAdapter(Submission)
Look = Callable[[Submission], JobSeen | None]
"""Asks SLURM for a job; None where it can't be asked."""


def read(folder: Path) -> Submission | None:
    """The submission of a run folder; None for a launch that was handed to nobody."""
    with suppress(OSError, ValueError):
        return _SHAPE.validate_json(files.read(folder / NAME))
    return None


def write(folder: Path, submission: Submission) -> None:
    files.replace_json(folder / NAME, asdict(submission))


def job_here() -> str:
    """The id of the SLURM job that this process runs in; empty outside of one."""
    return os.environ.get("SLURM_JOB_ID", "")


def starts_before() -> int:
    """Tells how often this job was queued again; 0 outside of one."""
    said = os.environ.get("SLURM_RESTART_COUNT", "")
    return int(said) if job_here() and said.isdecimal() else 0
