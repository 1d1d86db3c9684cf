"""Measures what a child and all below it take of the machine beside their card, from outside: host memory, /dev/shm, open files, processes.

Others use the same machine: what there is for the child is what is free, and what the child itself has by then.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass

from launcher.machine import host
from launcher.shared import procfs
from launcher.shared.sampling import Looks
from launcher.shared.sizes import MIB

if os.name == "posix":
    import resource

LOOK_S = 0.1
"""Between two looks at what is cheap to see."""
FILES_S = 1.0
"""Between two looks at open files."""
SHARE_OF_TIME = 0.05
"""Pages are walked for at most this part of the time, unless more memory than ever is resident: then at once, for a peak may be short."""
MORE_BYTES, MORE = 32 * MIB, 1.03
"""What counts as more than ever."""


@dataclass(slots=True)
class HostUse:
    """The most that was taken at once, and the least that there was for it; None: no limit, or nobody tells it. Bytes and numbers."""

    memory_bytes: int = 0
    memory_there: int | None = None
    shared_before: int | None = None
    """Free in /dev/shm at the beginning; None: there is none."""
    shared_taken: int = 0
    """Of it, by whomever."""
    shared_mapped: int = 0
    """Shared memory that the processes have mapped; what is on its way between two of them is not."""
    files: int = 0
    """Of the process with most."""
    files_there: int | None = None
    tasks: int = 0
    tasks_there: int | None = None


class HostMeter(Looks):
    """From ``start`` to ``stop``; then ``use`` is whole. ``use`` says what there is from the beginning."""

    def __init__(self) -> None:
        super().__init__("autofit-host", self._look, every_s=LOOK_S)
        self._pid = 0
        self._walk_at = self._files_at = 0.0
        self._resident = 0
        self.use = HostUse(memory_there=host.memory()[1], shared_before=host.shared_memory_free(), tasks_there=host.tasks_left())

    def begin(self, pid: int) -> None:
        self._pid = pid
        self.start()

    def _look(self) -> None:
        pids = [self._pid, *procfs.descendants(self._pid)]
        now, use = time.monotonic(), self.use
        use.tasks = max(use.tasks, sum(len(_names(f"/proc/{pid}/task")) for pid in pids))
        if use.shared_before is not None:
            use.shared_taken = max(use.shared_taken, use.shared_before - (host.shared_memory_free() or 0))
        if now >= self._files_at:
            self._files_at = now + FILES_S
            self._look_at_files(pids)
        resident = sum(map(_resident, pids))
        if now >= self._walk_at or resident > max(self._resident + MORE_BYTES, MORE * self._resident):
            self._resident = max(self._resident, resident)
            began = time.thread_time()
            self._walk(pids)
            self._walk_at = time.monotonic() + (time.thread_time() - began) / SHARE_OF_TIME

    def _look_at_files(self, pids: list[int]) -> None:
        for pid in pids:
            with suppress(OSError, ValueError):
                number, limit = len(os.listdir(f"/proc/{pid}/fd")), resource.prlimit(pid, resource.RLIMIT_NOFILE)[0]
                if number > self.use.files:
                    self.use.files, self.use.files_there = number, None if limit == resource.RLIM_INFINITY else limit

    def _walk(self, pids: list[int]) -> None:
        free = host.memory()[1]
        own = shared = 0
        for pid in pids:
            with suppress(OSError, ValueError, IndexError):
                private, mapped = procfs.own_bytes(pid)
                own, shared = own + private, shared + mapped
        use, held = self.use, own + shared
        use.shared_mapped = max(use.shared_mapped, shared)
        use.memory_bytes = max(use.memory_bytes, held)
        there = max(free, host.memory()[1]) + held
        use.memory_there = min(there, use.memory_there) if use.memory_there is not None else there


def _resident(pid: int) -> int:
    with suppress(OSError, IndexError):
        return procfs.resident_bytes(pid)
    return 0


def _names(folder: str) -> list[str]:
    with suppress(OSError):
        return os.listdir(folder)
    return []
