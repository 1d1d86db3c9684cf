"""A running full run -> how it ended. Watches its memory and records it; signals pass through; nothing is left behind."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from launcher import devices, process
from launcher.devices import Budget
from launcher.job import Job
from launcher.process import Child
from launcher.record import RunFolder
from launcher.verdict import MemoryFailure, memory_failure

HEARTBEAT_S = 30.0
SAMPLE_S = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How a full run ended."""

    returncode: int
    seconds: float
    peak_resident_bytes: int
    """Most resident memory of the run's process (host)."""
    peak_device_bytes: int
    """Most that the run had in use on its card, context included, sampled each second; 0 on a CPU."""
    memory_failure: MemoryFailure | None
    """Set where a failed run's own words say that memory ran out."""

    @property
    def done(self) -> bool:
        return self.returncode == 0


def follow(job: Job, child: Child) -> Outcome:
    """Waits for the run's end, noting its memory every half minute. Raises Interrupted once a signal has ended it."""
    folder = job.folder
    watch = _Watch(child, job.budget, folder)
    with process.forward_signals(child):
        ending = process.wait(child, each_poll=watch, stderr=folder.run_stderr)
    said = ending.stderr_tail + process.tail(folder.run_stdout)
    outcome = Outcome(
        returncode=ending.returncode,
        seconds=ending.seconds,
        peak_resident_bytes=watch.peak_bytes,
        peak_device_bytes=watch.peak_device_bytes,
        memory_failure=memory_failure(said) if ending.returncode else None,
    )
    folder.event("run_ended", outcome=outcome)
    return outcome


class _Watch:
    """Called at every poll; cheap. Samples memory, and records a heartbeat twice a minute."""

    def __init__(self, child: Child, budget: Budget, folder: RunFolder) -> None:
        self._process = psutil.Process(child.pid)
        self._budget = budget
        self._folder = folder
        self._sampled = self._told = time.monotonic()
        self.peak_bytes = 0
        self.peak_device_bytes = 0

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self._sampled < SAMPLE_S:
            return
        self._sampled = now
        with contextlib.suppress(psutil.Error):
            resident = self._process.memory_info().rss
            device = devices.used_bytes(self._budget)
            self.peak_bytes = max(self.peak_bytes, resident)
            self.peak_device_bytes = max(self.peak_device_bytes, device)
            if now - self._told >= HEARTBEAT_S:
                self._told = now
                self._folder.event("heartbeat", resident_bytes=resident, device_bytes=device, log_bytes=_size(self._folder.run_stdout))


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0
