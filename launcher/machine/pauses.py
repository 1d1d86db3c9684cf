"""Pauses: Ctrl-Z stops a child together with the launcher, `fg` lets both go on, and no child is judged by the time in between."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from launcher.shared import procfs

MOST_S = 5.0
"""The launcher looks at a child several times a second. Of a longer time between two looks the rest is a pause."""


class AwakeTime:
    """Seconds since the child's start, without those in which this process itself was stopped (Ctrl-Z, SIGSTOP, a scheduler)."""

    def __init__(self, now: float) -> None:
        """``now``: monotonic seconds, as in ``look``."""
        self._looked, self.seconds = now, 0.0

    def look(self, now: float) -> float:
        self.seconds += min(now - self._looked, MOST_S)
        self._looked = now
        return self.seconds


@contextlib.contextmanager
def shared_with(pid: int) -> Iterator[None]:
    """While open, a SIGTSTP to this process stops ``pid``, all that it started, and then this process; SIGCONT lets them all go on.

    A child in a session of its own hears nothing of its launcher's terminal: without this it would go on unwatched. For the main thread.
    """
    if signal.getsignal(signal.SIGTSTP) is signal.SIG_IGN:
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        stopped = _stop(pid)
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.pthread_kill(threading.get_ident(), signal.SIGTSTP)  # returns once we go on; at once where nobody could let us go on
        signal.signal(signal.SIGTSTP, handle)
        for one in stopped:
            _send(one, signal.SIGCONT)

    before = signal.signal(signal.SIGTSTP, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)


def _stop(pid: int) -> list[int]:
    """Stops a process, then those it started: one that is stopped starts no more. A session without a terminal ignores SIGTSTP."""
    _send(pid, signal.SIGSTOP)
    return [pid, *(below for child in procfs.children(pid) for below in _stop(child))]


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
