"""Reads the state of runs from their folders alone. Changes nothing; needs no recipe, no trainer, no device.

Folders of an older autofit are read as far as possible; what they lack is left empty. Raises BadInput for a folder that is no run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autofit_launcher.common import files
from autofit_launcher.errors import did_you_mean, refusal
from autofit_launcher.history import owner, series, submission
from autofit_launcher.history.owner import Owner, State
from autofit_launcher.history.records import MemoryRecord, Record, RungRecord
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.history.submission import JobSeen, Look, Submission
from autofit_launcher.paths import typed

ROOT = Path("runs/autofit")
"""Folder in which runs are looked up by name: the default of ``run.root``."""
AT_WORK = ("trying", "running")
"""States of a record while its launch goes on."""
NOT_OVER = (*AT_WORK, "interrupted", "stopped")
"""States of a record whose SLURM job may be queued again, or go on."""
QUEUED = ("submitted", "pending", "starting")
"""States of a launch whose SLURM job waits, or has only just begun."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run folder as it is now. Sizes are bytes, times seconds since 1970; None and 0 mean unknown."""

    folder: RunFolder
    owner: Owner
    record: Record | None
    """``record.json``; None if there is none, or it can't be read."""
    lines: tuple[Mapping[str, Any], ...] = field(repr=False)
    """The end of the full run's time series."""
    submission: Submission | None = None
    """The SLURM job that it was handed to; None for a launch that was handed to nobody."""
    seen: JobSeen | None = None
    """SLURM's word on that job; None where it wasn't asked, or can't be."""

    @property
    def known(self) -> Record:
        """The record; an empty one where there is none."""
        return self.record or Record()

    @property
    def name(self) -> str:
        return self.folder.path.name

    @property
    def recipe(self) -> str:
        return self.known.recipe or self.name

    @property
    def state(self) -> str:
        """One word: ``trying`` or ``running`` while a process of this machine runs it, ``killed`` if that process is gone.

        ``elsewhere`` if another machine's does, ``unknown`` if no owner was written; else how it ended (``fitted``: trials only).
        One that was handed to SLURM: ``pending`` while its job is queued, also for another start, ``starting`` until the job has begun with
        it, ``submitted`` where SLURM can't be asked.
        """
        held, job = self.owner.state, self.seen
        begun = self.record is not None or held is not State.UNKNOWN
        told = self.known.status or ("trying" if begun else "unknown")
        if told == "done" and not self.known.attempts and self.known.run is None:
            return "fitted"
        if self.submission is not None and told in (*NOT_OVER, "unknown"):
            if job is not None and job.waits:
                return "pending"
            if job is not None and job.runs:
                return told if told in AT_WORK and held in (State.RUNNING, State.ELSEWHERE) else "starting"
            told = told if begun else "submitted" if job is None else "stopped"
        if told not in AT_WORK:
            return told
        gone = {State.ELSEWHERE: "killed"} if job is not None and self.owner.job else {}
        return {State.RUNNING: told, State.KILLED: "killed", State.ENDED: "stopped", **gone}.get(held, held.value)

    @property
    def at_work(self) -> bool:
        return self.state in (*AT_WORK, *QUEUED)

    @property
    def budget_bytes(self) -> int:
        return self.known.device.budget_bytes

    @property
    def cap_bytes(self) -> int:
        return self.known.device.cap_bytes

    @property
    def device(self) -> str:
        device = self.known.device
        place = f"cuda:{device.index}" if device.kind == "cuda" else device.kind
        return f"{place} ({device.name})" if device.name else place

    @property
    def _rung(self) -> RungRecord | Record:
        """The rung of the full run, or the one being tried, or that fits, or was tried last."""
        tried = self.known.trials[-1:] if self.known.rung_index is None else []
        return self.known.trying or (tried[0] if tried else self.known)

    @property
    def rung_index(self) -> int | None:
        return self._rung.rung_index

    @property
    def rung(self) -> Mapping[str, Any]:
        """The rung's wheels and their values, and its accumulation."""
        told = self._rung
        return {**told.rung, "accumulation": told.accumulation} if told.rung else {}

    @property
    def tried(self) -> int:
        """Trials that have ended."""
        return sum(not one.kept for one in self.known.trials)

    @property
    def last(self) -> Mapping[str, Any]:
        """The newest line of the series; empty before the full run."""
        return self.lines[-1] if self.lines else {}

    @property
    def began(self) -> float | None:
        """Time of its launch in seconds since 1970, or of its hand-in to SLURM."""
        return self.known.began or (self.submission.handed_in if self.submission is not None else None)

    @property
    def last_sign(self) -> float | None:
        """Time at which this folder was last written to, in seconds since 1970."""
        return max(files.written_at(self.folder.record), self.last.get("at", 0.0)) or None

    @property
    def memory(self) -> MemoryRecord:
        """Memory that the full run has used, once it has ended; zeros before that."""
        return self.known.memory or MemoryRecord()

    @property
    def trial_peak_bytes(self) -> int:
        """Peak of the trial that fits; once the run is over, of its rung's, 0 if that was never tried."""
        fits = (one.peak_bytes for one in reversed(self.known.trials) if one.verdict == "fits")
        return next(fits, 0) if self.known.memory is None else self.memory.trial_peak_bytes

    @property
    def peak_bytes(self) -> int:
        """Most bytes that the full run has used, as its trial counts them; before it, the peak of the trial that fits."""
        peaks = [told[key] for told in self.lines for key in ("peak_bytes", "highest_bytes") if isinstance(told.get(key), int)]
        peaks += [one.peak_bytes for one in self.known.attempts[-1:]]
        return max(self.memory.run_peak_bytes, *peaks, 0) or self.trial_peak_bytes

    @property
    def seconds_left(self) -> float | None:
        launched = [one.began for one in self.known.attempts] if self.state == "running" else []
        return series.seconds_left(self.lines, since=launched[-1]) if launched else None

    @property
    def phase(self) -> str:
        """Phase of the trial that is under way; empty where none is."""
        if self.known.trying is None:
            return ""
        return str(files.read_json(self.folder.trials / f"{self.known.trying.rung_index:03d}" / "report.json").get("phase", "start"))

    @property
    def attempt(self) -> int:
        """Number of the current attempt; above 1 once the run was resumed."""
        return len(self.known.attempts) or 1

    @property
    def waits_for(self) -> str:
        """The holder of the card that this launch waits for just now; empty where it waits for none."""
        return self.known.waits_for if self.at_work else ""

    @property
    def remark(self) -> str:
        """The last deviation of the full run since it was last started; empty if none."""
        said = self.known.attempts[-1].remarks if self.known.attempts else []
        return f"the run {said[-1]}" if said else ""

    def as_record(self) -> dict[str, Any]:
        """The run as ``--json`` prints it."""
        own = ("recipe", "state", "rung_index", "rung", "attempt", "peak_bytes", "trial_peak_bytes", "cap_bytes", "budget_bytes", "device",
               "seconds_left", "began", "last_sign")  # fmt: skip
        told = ("phase", "epoch", "epochs", "step", "steps", "done", "loss", "used_bytes")
        return {
            "run": self.name, "run_dir": str(self.folder.path), "owner": self.owner if self.owner.pid else None, "trials": self.tried,
            "job": self.submission.job if self.submission is not None else None,
            "job_state": getattr(self.seen, "state", None) or None, "job_reason": getattr(self.seen, "reason", None) or None,
            "trial_phase": self.phase or None, "waits_for": self.waits_for or None, "remark": self.remark or None,
            **{name: getattr(self, name) for name in own}, **{name: self.last.get(name) for name in told},
        }  # fmt: skip


def how_to_go_on(path: Path | str) -> str:
    """Tells by which command a run goes on that did not come to its end."""
    return f"`{typed('resume', path)}` goes on with it."


def is_run(path: Path) -> bool:
    """Tells whether autofit has made this folder for a launch."""
    isfile = os.path.isfile  # which is false, and raises nothing, for a folder that another user has closed
    return os.path.isdir(path / "trials") and (isfile(path / "record.json") or isfile(path / "recipe.yaml"))


def find(said: str) -> Path:
    """The run folder that a user means: a path, or a name below ``ROOT``. Raises BadInput if there is none."""
    for path in (Path(said), ROOT / said):
        if is_run(path):
            return path.resolve()
    known = [one.name for place in (Path(said), ROOT) if place.is_dir() for one in sorted(place.iterdir()) if is_run(one)]
    cure = f"{did_you_mean(Path(said).name, known)}`autofit runs` lists what there is."
    raise refusal(f"it is no run of autofit's, and there is none of that name in {ROOT}", cure, where=said)


def newest() -> Path:
    """The run that was launched last. Raises BadInput if there is none."""
    if not (runs := list(below(ROOT))):
        raise refusal("there is no run here", "Name its folder.", where=str(ROOT))
    touched = {path: files.written_at(RunFolder(path).record) or path.stat().st_mtime for path in runs}  # not by a later report
    return max(runs, key=touched.__getitem__).resolve()


def below(root: Path) -> Iterator[Path]:
    """The run folders in ``root``, or in a folder of it (``runs`` holds ``runs/autofit``); or itself, where it is one. Each once, however
    many links lead to it.
    """
    seen, waiting = set[str](), [(root, 2)]
    while waiting:
        folder, levels = waiting.pop()
        if is_run(folder):
            if (real := os.path.realpath(folder)) not in seen:
                seen.add(real)
                yield folder
        elif levels:
            with suppress(OSError):
                waiting += [(Path(entry), levels - 1) for entry in os.scandir(folder) if os.path.isdir(entry)]


TAIL_BYTES = 64 * 1024
"""Bytes of a series that hold some minutes of it."""


def run_in(path: Path, *, look: Look | None = None) -> Run:
    """The run in a folder, with the end of its series. ``look`` asks SLURM for the job that it was handed to; None: SLURM isn't asked."""
    folder = RunFolder(path.resolve())
    holder = owner.who(folder.path)  # first: a record that is read later is at least as new
    lines = tuple(series.read(folder.series, most_bytes=TAIL_BYTES))
    record, handed = Record.read(folder.record), submission.read(folder.path)
    asked = look is not None and handed is not None and handed.job and (record is None or record.status in NOT_OVER)
    return Run(
        folder=folder, owner=holder, record=record, lines=lines, submission=handed, seen=look(handed) if asked and look and handed else None
    )
