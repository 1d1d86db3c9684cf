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
SHARE_OF_TIME, SHARE_AT_FIRST = 0.2, 0.5
"""Pages are walked for at most this part of the time, unless processes have had more than ever resident: then at once. The larger one for
``FIRST_S`` after one has been started: what it has together with its parent is copied, page by page, where either writes."""
FIRST_S = 1.0


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


@dataclass(slots=True)
class _Walked:
    """Of a process at the last walk. Bytes."""

    most: int = 0
    """Ever resident."""
    counted: int = 0
    """Of what the kernel tells as the most that was ever resident, that which is no news: 0 where it was made to forget."""
    resident: int = 0
    own: int = 0
    """Private memory and its part of what is shared."""
    mapped: int = 0
    """Of it, shared memory that is no file's."""
    unshared: int = 0
    """Private memory that no other has."""
    gone: int = 0
    """What it had had since the walk before, and no more."""
    files: int = 0
    """Mapped of files, and resident."""
    files_since: int = 0
    """The most of that at a look since."""

    def beyond(self, most: int, resident: int | None = None, files: int = 0) -> int:
        """What it has had since beyond ``resident`` bytes (None: beyond what it had then), of which ``files`` are mapped files: those can
        be taken back. ``most``: what the kernel tells now."""
        resident, files = (self.resident, self.files) if resident is None else (resident, files)
        return max(0, most - resident - max(0, self.files_since - files)) if most > self.counted else 0


class HostMeter(Looks):
    """From ``begin`` to ``stop``. ``use`` says what there is from the beginning."""

    def __init__(self, saves_in: Path) -> None:
        super().__init__("autofit-host", self._look, every_s=LOOK_S)
        self._pid = 0
        self._below: dict[int, int] = {}
        """Process -> processes below it, by the last look."""
        self._walked: dict[int, _Walked] = {}
        self._walk_at = self._files_at = self._started_at = 0.0
        self.use = HostUse(
            memory_there=host.memory()[1], shared_before=host.shared_memory_free(), tasks_there=host.tasks_left(),
            disk_there=host.disk_free(saves_in) + host.disk_taken(saves_in), unread=host.unread_limits(),
        )  # fmt: skip

    def begin(self, pid: int) -> None:
        self._pid = pid
        self.start()

    def _look(self) -> None:
        pids: list[int] = []
        now, use, rise, together = time.monotonic(), self.use, 0, 0
        use.tasks = max(use.tasks, self._count(self._pid, pids))
        if use.shared_before is not None:
            use.shared_taken = max(use.shared_taken, use.shared_before - (host.shared_memory_free() or 0))
        self._started_at = now if any(pid not in self._walked for pid in pids) else self._started_at
        for pid in pids:
            with suppress(OSError, IndexError, ValueError):
                last, (most, files) = self._walked.setdefault(pid, _Walked()), procfs.most_resident_bytes(pid)
                last.files_since, rise = max(files, last.files_since), rise + max(0, most - last.most)
                together += last.own + last.beyond(most) if last.own else 0
                if now >= self._files_at:
                    self._look_at_files(pid)
        self._needs(together)
        self._files_at = now + FILES_S if now >= self._files_at else self._files_at
        if now >= self._walk_at or rise > max(8 * MIB, 0.01 * self.use.memory_bytes):
            began = time.thread_time()
            self._walk(pids)
            share = SHARE_AT_FIRST if now < self._started_at + FIRST_S else SHARE_OF_TIME
            self._walk_at = time.monotonic() + (time.thread_time() - began) * (1 / share - 1)

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
        free, use, walked = host.memory()[1], self.use, dict[int, _Walked]()
        for pid in pids:
            with suppress(OSError, ValueError, IndexError, KeyError):
                before, told, after = procfs.resident_bytes(pid), procfs.rollup(pid), procfs.resident_bytes(pid)
                (private, mapped), (most, files) = procfs.own_bytes(pid, told), procfs.most_resident_bytes(pid)
                last, unshared = self._walked.get(pid, _Walked()), told["Private_Dirty"]
                most, forgotten = self._forget(pid, most)
                # what it had while it was walked; some kernels tell both counts with an error of their own (percpu_counter, Linux 6.2)
                resident = max(min(before, after), told["Rss"])
                # what it had together with others they have still
                gone = min(last.beyond(most, resident, files), last.unshared + last.beyond(most))
                use.unshared_of[pid] = max(unshared, use.unshared_of.get(pid, 0))
                counted = 0 if forgotten else most
                walked[pid] = _Walked(max(most, last.most), counted, resident, private + mapped, mapped, unshared, gone, files, files)
        self._walked = {}
        for pid, one in walked.items():
            with suppress(OSError):  # what one had that ended meanwhile may be in the parts of those that were walked after it
                procfs.status_bytes("VmRSS", pid)
                self._walked[pid] = one
        own, shared, gone = (sum(getattr(one, of) for one in self._walked.values()) for of in ("own", "mapped", "gone"))
        there = max(free, host.memory()[1]) + own
        use.shared_mapped = max(use.shared_mapped, shared)
        self._needs(own + gone)
        use.memory_there = min(there, use.memory_there) if use.memory_there is not None else there

    def _forget(self, pid: int, most: int) -> tuple[int, bool]:
        """(the most that it had resident, whether the kernel forgets that from now on). Only where it stands still: the kernel waits for
        whoever maps memory, and would forget what came meanwhile."""
        for _ in range(5):
            before, (most, _) = procfs.resident_bytes(pid), procfs.most_resident_bytes(pid)
            if procfs.resident_bytes(pid) == before:
                return most, procfs.forget_most_resident(pid)
        return most, False

    def _needs(self, size: int) -> None:
        if size > self.use.memory_bytes:
            self.use.memory_bytes, self.use.processes_below = size, dict(self._below)


def _on_its_way(place: str) -> bool:
    """Whether an open file is a tensor's storage in shared memory: PyTorch names them so (torch/csrc/StorageSharing.cpp)."""
    with suppress(OSError):
        return os.readlink(place).startswith("/dev/shm/torch_")
    return False
