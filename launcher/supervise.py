"""A running full run -> how it ended. Watches its memory and records it; signals pass through; nothing is left behind."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from launcher import process
from launcher.process import Child
from launcher.record import RunFolder
from launcher.verdict import MemoryFailure, memory_failure

HEARTBEAT_S = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How a full run ended."""

    returncode: int
    seconds: float
    peak_resident_bytes: int
    """Most resident memory of the run's process (host)."""
    memory_failure: MemoryFailure | None
    """Set where a failed run's own words say that memory ran out."""

    @property
    def done(self) -> bool:
        return self.returncode == 0


def follow(child: Child, folder: RunFolder) -> Outcome:
    """Waits for the run's end, noting its memory every half minute. Raises Interrupted once a signal has ended it."""
    watch = _Watch(child, folder)
    with process.forward_signals(child):
        ending = process.wait(child, each_poll=watch, stderr=folder.run_stderr)
    said = ending.stderr_tail + process.tail(folder.run_stdout)
    outcome = Outcome(
        returncode=ending.returncode,
        seconds=ending.seconds,
        peak_resident_bytes=watch.peak_bytes,
        memory_failure=memory_failure(said) if ending.returncode else None,
    )
    folder.event("run_ended", outcome=outcome)
    return outcome


class _Watch:
    """Called at every poll; cheap."""

    def __init__(self, child: Child, folder: RunFolder) -> None:
        self._process = psutil.Process(child.pid)
        self._folder = folder
        self._last = time.monotonic()
        self.peak_bytes = 0

    def __call__(self) -> None:
        with contextlib.suppress(psutil.Error):
            resident = self._process.memory_info().rss
            self.peak_bytes = max(self.peak_bytes, resident)
            if time.monotonic() - self._last >= HEARTBEAT_S:
                self._last = time.monotonic()
                self._folder.event("heartbeat", resident_bytes=resident, log_bytes=_size(self._folder.run_stdout))


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0
