"""A running full run -> how it ended. Watches its memory and records it; signals pass through; nothing is left behind."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from launcher import devices, process
from launcher.job import Job
from launcher.ladder import Rung
from launcher.memory_failure import MemoryFailure, gone_otherwise, lost_in, memory_failure
from launcher.meter import Meter
from launcher.process import Child
from launcher.usage import Usage

HEARTBEAT_S = 30.0
SAMPLE_S = 1.0
POLL_S = 0.5
"""The end of a run, and a signal, are noticed at once; waking up more often would cost the run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How a full run ended."""

    returncode: int
    seconds: float
    peak_resident_bytes: int
    """Most resident memory of the run's process (host)."""
    peak_device_bytes: int
    """Most that the run had in use on its card, context included, sampled each second; 0 on a CPU."""
    peak_bytes: int
    """Most memory that the run used, in the measure of its trial (``usage.Usage``); 0 where it could not be seen."""
    memory_failure: MemoryFailure | None
    """Set where a failed run's own words say that memory ran out: the last of them, which ended it."""
    lost_to_memory: tuple[str, ...] = ()
    """Memory failures that the run's logs speak of and that it got over: a figure was not drawn, say."""

    @property
    def done(self) -> bool:
        return self.returncode == 0


def follow(
    job: Job,
    child: Child,
    *,
    rung: Rung,
    base_bytes: int,
    told: Callable[..., None] | None = None,
    otherwise: Callable[[str, str], None] | None = None,
) -> Outcome:
    """Waits for the run's end, noting its memory every half minute. Raises Interrupted once a signal has ended it.

    ``rung``: the run's; ``base_bytes``: what libraries held in the trial's process when its budget was taken;
    ``told`` hears (seconds, used bytes, peak bytes, job) with each heartbeat; ``otherwise`` hears (line, what it means) as soon as the
    run says that it goes on otherwise than asked.
    """
    folder = job.folder
    usage = Usage(child.pid, job.budget, folder.held, base_bytes=base_bytes)
    watch = _Watch(child, job, usage, Meter(job, rung, usage), told, otherwise)
    usage.start()
    try:
        with process.forward_signals(child):
            ending = process.wait(child, each_poll=watch, poll_s=POLL_S, stderr=folder.run_stderr)
    finally:
        usage.stop()
        watch.look()
    failure = memory_failure(ending.stderr_tail + process.tail(folder.run_stdout), last=True) if ending.returncode else None
    lost = lost_in(folder.run_stdout, folder.run_stderr)
    outcome = Outcome(
        returncode=ending.returncode,
        seconds=ending.seconds,
        peak_resident_bytes=watch.peak_bytes,
        peak_device_bytes=watch.peak_device_bytes,
        peak_bytes=usage.peak_bytes,
        memory_failure=failure,
        lost_to_memory=tuple(line for line in lost if failure is None or line != failure.line),
    )
    folder.event("run_ended", outcome=outcome)
    return outcome


class _Watch:
    """Called at every poll; cheap. Samples memory, and records a heartbeat twice a minute."""

    def __init__(
        self,
        child: Child,
        job: Job,
        usage: Usage,
        meter: Meter,
        told: Callable[..., None] | None,
        otherwise: Callable[[str, str], None] | None = None,
    ) -> None:
        self._process = psutil.Process(child.pid)
        self._job = job
        self._usage = usage
        self._meter = meter
        self._tell = told
        self._began = self._sampled = self._told = time.monotonic()
        self._logs = [_Log(path, job, otherwise, meter.said) for path in (job.folder.run_stdout, job.folder.run_stderr)]
        self.peak_bytes = 0
        self.peak_device_bytes = 0

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self._sampled < SAMPLE_S - POLL_S / 2:
            return
        self._sampled = now
        self.look()
        with contextlib.suppress(psutil.Error):
            resident = self._process.memory_info().rss
            device = devices.used_bytes(self._job.budget)
            self.peak_bytes = max(self.peak_bytes, resident)
            self.peak_device_bytes = max(self.peak_device_bytes, device)
            if now - self._told >= HEARTBEAT_S:
                self._told = now
                if self._tell is not None:
                    self._tell(now - self._began, self._usage.now_bytes, self._usage.peak_bytes, self._job)
                used = {"resident_bytes": resident, "device_bytes": device, "used_bytes": self._usage.now_bytes}
                self._job.folder.event("heartbeat", **used, peak_bytes=self._usage.peak_bytes, log_bytes=_size(self._job.folder.run_stdout))

    def look(self) -> None:
        """What the run has said since the last look, and a line of its series; once more when it has ended."""
        for log in self._logs:
            log.look()
        self._meter.look()


class _Log:
    """One of the run's logs, read as it grows. Each thing that the run does otherwise is told once."""

    def __init__(
        self, path: Path, job: Job, otherwise: Callable[[str, str], None] | None, heard: Callable[[str], None] | None = None
    ) -> None:
        self._path, self._job, self._tell, self._heard = path, job, otherwise, heard
        self._at = 0
        self._rest = b""
        self._told: set[str] = set()

    def look(self) -> None:
        with contextlib.suppress(OSError), self._path.open("rb") as file:
            file.seek(self._at)
            fresh = file.read()
            self._at += len(fresh)
            *lines, self._rest = (self._rest + fresh).replace(b"\r", b"\n").split(b"\n")
            for line in lines:
                self._said(line.decode("utf-8", errors="replace").strip()[:500])

    def _said(self, line: str) -> None:
        if self._heard is not None:
            self._heard(line)
        what = gone_otherwise(line)
        if not what or what in self._told:
            return
        self._told.add(what)
        self._job.folder.event("run_otherwise", what=what, line=line)
        if self._tell is not None:
            self._tell(line, what)


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0
