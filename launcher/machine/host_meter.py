"""Measures what a child and all below it take of the machine beside their device, from outside: host memory, /dev/shm, open files,
processes.

Others use the same machine: what there is for the child is what is free, and what the child itself has by then.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from launcher.machine import host
from launcher.shared import procfs
from launcher.shared.sampling import Looks
from launcher.shared.sizes import MIB

if os.name == "posix":
    import resource

LOOK_S, FILES_S = 0.1, 1.0
"""Between two looks at what is cheap to see, and at open files."""
SHARE_OF_TIME = 0.05
"""Pages are walked for at most this part of the time, unless processes have had more than ever resident: then at once."""


@dataclass(slots=True)
class HostUse:
    """The most that was taken at once, and the least that there was for it; None: no limit, or nobody tells it. Bytes and numbers."""

    memory_bytes: int = 0
    unshared_of: dict[int, int] = field(default_factory=dict)
    """The most of each process that no other has mapped, by its number."""
    processes_below: dict[int, int] = field(default_factory=dict)
    """Processes below each when ``memory_bytes`` was seen."""
    memory_there: int | None = None
    shared_before: int | None = None
    """Free in /dev/shm at the beginning; None: there is none."""
    shared_taken: int = 0
    """Of it, by whomever."""
    shared_mapped: int = 0
    """Shared memory that the processes have mapped; what is on its way between two of them is not."""
    files: int = 0
    """Of the process with most."""
    files_beside: int = 0
    """The same without what PyTorch has on its way between processes."""
    files_there: int | None = None
    tasks: int = 0
    """Processes and threads of all of them."""
    tasks_of: dict[int, int] = field(default_factory=dict)
    """The most of each process, by its number."""
    tasks_below: dict[int, int] = field(default_factory=dict)
    """The most that all below a process had at once, by its number."""
    tasks_there: int | None = None
    unread: frozenset[str] = frozenset()
    """Limits of control groups that can't be read (``host.unread_limits``)."""
    disk_there: int | None = None
    """At the beginning, for what the run saves, with what it has saved before."""


class HostMeter(Looks):
    """From ``begin`` to ``stop``. ``use`` says what there is from the beginning."""

    def __init__(self, saves_in: Path) -> None:
        super().__init__("autofit-host", self._look, every_s=LOOK_S)
        self._pid = 0
        self._below: dict[int, int] = {}
        """Process -> processes below it, by the last look."""
        self._peaks: dict[int, int] = {}
        """Process -> the most that it had resident, by the last walk."""
        self._walk_at = self._files_at = 0.0
        self.use = HostUse(
            memory_there=host.memory()[1], shared_before=host.shared_memory_free(), tasks_there=host.tasks_left(),
            disk_there=host.disk_free(saves_in) + host.disk_taken(saves_in), unread=host.unread_limits(),
        )  # fmt: skip

    def begin(self, pid: int) -> None:
        self._pid = pid
        self.start()

    def _look(self) -> None:
        pids: list[int] = []
        now, use, peaks = time.monotonic(), self.use, dict[int, int]()
        use.tasks = max(use.tasks, self._count(self._pid, pids))
        if use.shared_before is not None:
            use.shared_taken = max(use.shared_taken, use.shared_before - (host.shared_memory_free() or 0))
        for pid in pids:
            with suppress(OSError, IndexError, ValueError):
                peaks[pid] = procfs.status_bytes("VmHWM", pid)
                if now >= self._files_at:
                    self._look_at_files(pid)
        self._files_at = now + FILES_S if now >= self._files_at else self._files_at
        rise = sum(max(0, peak - self._peaks.get(pid, 0)) for pid, peak in peaks.items())
        if now >= self._walk_at or rise > max(8 * MIB, 0.01 * sum(self._peaks.values())):
            began = time.thread_time()
            self._walk(pids)
            self._walk_at = time.monotonic() + (time.thread_time() - began) / SHARE_OF_TIME

    def _count(self, pid: int, found: list[int]) -> int:
        """Threads of a process and of all below it, which are put into ``found``."""
        found.append(pid)
        own = 0
        with suppress(OSError):
            own = len(os.listdir(f"/proc/{pid}/task"))
        before = len(found)
        below = sum(self._count(child, found) for child in procfs.children(pid))
        self._below[pid] = len(found) - before
        for most, now in ((self.use.tasks_of, own), (self.use.tasks_below, below)):
            most[pid] = max(now, most.get(pid, 0))
        return own + below

    def _look_at_files(self, pid: int) -> None:
        place, limit = f"/proc/{pid}/fd", resource.prlimit(pid, resource.RLIMIT_NOFILE)[0]
        names = os.listdir(place)
        self.use.files_beside = max(self.use.files_beside, sum(not _on_its_way(f"{place}/{name}") for name in names))
        if len(names) > self.use.files:
            self.use.files, self.use.files_there = len(names), None if limit == resource.RLIM_INFINITY else limit

    def _walk(self, pids: list[int]) -> None:
        free, own, shared, gone, peaks = host.memory()[1], 0, 0, 0, dict[int, int]()
        for pid in pids:
            with suppress(OSError, ValueError, IndexError):
                before, told, after = procfs.resident_bytes(pid), procfs.rollup(pid), procfs.resident_bytes(pid)
                private, mapped = procfs.own_bytes(pid, told)
                own, shared, peaks[pid] = own + private, shared + mapped, procfs.status_bytes("VmHWM", pid)
                self.use.unshared_of[pid] = max(told.get("Private_Dirty", 0), self.use.unshared_of.get(pid, 0))
                if peaks[pid] > self._peaks.get(pid, 0):  # what it has had since the last walk and has no more was there, too
                    gone += max(0, peaks[pid] - max(min(before, after), private + mapped))
        use, there, self._peaks = self.use, max(free, host.memory()[1]) + own + shared, peaks
        use.shared_mapped = max(use.shared_mapped, shared)
        if own + shared + gone > use.memory_bytes:
            use.memory_bytes, use.processes_below = own + shared + gone, dict(self._below)
        use.memory_there = min(there, use.memory_there) if use.memory_there is not None else there


def _on_its_way(place: str) -> bool:
    """Whether an open file is a tensor's storage in shared memory: PyTorch names them so (torch/csrc/StorageSharing.cpp)."""
    with suppress(OSError):
        return os.readlink(place).startswith("/dev/shm/torch_")
    return False
