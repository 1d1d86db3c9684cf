"""Threads and processes that a trainer has at once, counted whenever it starts one: those that are soon gone (a pool that reads labels, a
loader's workers while a few rows are validated) are seen by none who looks from outside.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from typing import Any

from ..shared.report import THREADS


class Threads:
    """The most at once of this process, of all kinds, and of the processes that it has started by Python's ``multiprocessing``."""

    def __init__(self) -> None:
        self._most = self._children = self._of_child = 0

    def fact(self) -> dict[str, dict[str, int]]:
        """The fact of a report; empty where none has been started."""
        most, below = self._most, self._children * self._of_child
        return {THREADS: {"process": os.getpid(), "most": most, "below": below, "children": self._children}} if most or below else {}

    def watch(self) -> None:
        thread_start = threading.Thread.start

        @functools.wraps(thread_start)
        def start_thread(thread: threading.Thread) -> None:
            self._most = max(self._most, _threads("self") + 1)
            thread_start(thread)

        threading.Thread.start = start_thread  # type: ignore[method-assign, assignment]
        if (processes := sys.modules.get("multiprocessing.process")) is not None:  # loaded here, it would change a script's own start
            self._watch_processes(processes)

    def _watch_processes(self, processes: Any) -> None:
        process_start = processes.BaseProcess.start

        @functools.wraps(process_start)
        def start_process(process: Any) -> None:
            process_start(process)
            alive = processes.active_children()
            self._children = max(self._children, len(alive))
            self._of_child = max(self._of_child, *(_threads(one.pid) for one in alive), 1)

        processes.BaseProcess.start = start_process


def _threads(process: int | str | None) -> int:
    """0 where it has ended, where no file more may be opened, and where there is no Linux."""
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{process}/task"))
    return 0
