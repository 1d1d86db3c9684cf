"""Threads and processes that a trainer has at once, counted whenever it starts one: those that are soon gone (a pool that reads labels, a
loader's workers while a few rows are validated) are seen by none who looks from outside.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from multiprocessing import active_children
from multiprocessing.process import BaseProcess

from ..shared.report import THREADS


class Threads:
    """The most at once of this process, of all kinds, and of the processes that it has started by Python's ``multiprocessing``."""

    def __init__(self) -> None:
        self._most = self._children = self._of_child = 0

    def fact(self) -> dict[str, dict[str, int]]:
        """The fact of a report; empty where none has been started."""
        most, below = self._most, self._children * self._of_child
        return {THREADS: {"process": os.getpid(), "most": most, "below": below}} if most or below else {}

    def watch(self) -> None:
        thread_start, process_start = threading.Thread.start, BaseProcess.start

        @functools.wraps(thread_start)
        def start_thread(thread: threading.Thread) -> None:
            self._most = max(self._most, _threads("self") + 1)
            thread_start(thread)

        @functools.wraps(process_start)
        def start_process(process: BaseProcess) -> None:
            process_start(process)
            alive = active_children()
            self._children = max(self._children, len(alive))
            self._of_child = max(self._of_child, *(_threads(one.pid) for one in alive), 1)

        threading.Thread.start = start_thread  # type: ignore[method-assign, assignment]
        BaseProcess.start = start_process  # type: ignore[method-assign, assignment]


def _threads(process: int | str | None) -> int:
    """0 where it has ended, where no file more may be opened, and where there is no Linux."""
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{process}/task"))
    return 0
