"""Threads that a process has at once, counted whenever it starts one: those that are soon gone (a pool that reads labels) are seen by none
who looks from outside."""

from __future__ import annotations

import contextlib
import functools
import os
import threading

from ..shared.report import THREADS


class Threads:
    """The most at once of this process, of all kinds."""

    def __init__(self) -> None:
        self._most = 0

    def fact(self) -> dict[str, dict[str, int]]:
        """The fact of a report; empty where none has been started."""
        return {THREADS: {"process": os.getpid(), "most": self._most}} if self._most else {}

    def watch(self) -> None:
        plain = threading.Thread.start

        @functools.wraps(plain)
        def start(thread: threading.Thread) -> None:
            with contextlib.suppress(OSError):  # no Linux, or no file more may be opened
                self._most = max(self._most, len(os.listdir("/proc/self/task")) + 1)
            plain(thread)

        threading.Thread.start = start  # type: ignore[method-assign, assignment]
