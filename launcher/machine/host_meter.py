"""Measures what a child and all below it take of the machine beside their device, from outside: host memory, /dev/shm, open files,
processes.

Others use the same machine: what there is for the child is what is free, and what the child itself has by then.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
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
"""Pages are walked for at most this part of the time, unless more memory than ever is resident: then at once, for a peak may be short."""


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
    files_beside: int = 0
    """The same without what PyTorch has on its way between processes."""
    files_there: int | None = None
    tasks: int = 0
    """Processes and threads of all of them."""
    tasks_there: int | None = None
    disk_there: int | None = None
    """At the beginning, for what the run saves, with what it has saved before."""


class HostMeter(Looks):
    """From ``begin`` to ``stop``. ``use`` says what there is from the beginning."""

    def __init__(self, saves_in: Path) -> None:
        super().__init__("autofit-host", self._look, every_s=LOOK_S)
        self._pid = self._resident = 0
        self._walk_at = self._files_at = 0.0
        self.use = HostUse(
            memory_there=host.memory()[1], shared_before=host.shared_memory_free(), tasks_there=host.tasks_left(),
            disk_there=host.disk_free(saves_in) + host.disk_taken(saves_in),
        )  # fmt: skip

    def begin(self, pid: int) -> None:
        self._pid = pid
        self.start()

    def _look(self) -> None:
        pids = [self._pid, *procfs.descendants(self._pid)]
        now, use, resident, tasks = time.monotonic(), self.use, 0, 0
        if use.shared_before is not None:
            use.shared_taken = max(use.shared_taken, use.shared_before - (host.shared_memory_free() or 0))
        for pid in pids:
            with suppress(OSError, IndexError, ValueError):
                resident += procfs.resident_bytes(pid)
                tasks += len(os.listdir(f"/proc/{pid}/task"))
                if now >= self._files_at:
                    self._look_at_files(pid)
        use.tasks = max(use.tasks, tasks)
        self._files_at = now + FILES_S if now >= self._files_at else self._files_at
        if now >= self._walk_at or resident > max(self._resident + 32 * MIB, 1.03 * self._resident):
            self._resident = max(self._resident, resident)
            began = time.thread_time()
            self._walk(pids)
            self._walk_at = time.monotonic() + (time.thread_time() - began) / SHARE_OF_TIME

    def _look_at_files(self, pid: int) -> None:
        place, limit = f"/proc/{pid}/fd", resource.prlimit(pid, resource.RLIMIT_NOFILE)[0]
        names = os.listdir(place)
        self.use.files_beside = max(self.use.files_beside, sum(not _on_its_way(f"{place}/{name}") for name in names))
        if len(names) > self.use.files:
            self.use.files, self.use.files_there = len(names), None if limit == resource.RLIM_INFINITY else limit

    def _walk(self, pids: list[int]) -> None:
        free, own, shared = host.memory()[1], 0, 0
        for pid in pids:
            with suppress(OSError, ValueError, IndexError):
                private, mapped = procfs.own_bytes(pid)
                own, shared = own + private, shared + mapped
        use, there = self.use, max(free, host.memory()[1]) + own + shared
        use.shared_mapped, use.memory_bytes = max(use.shared_mapped, shared), max(use.memory_bytes, own + shared)
        use.memory_there = min(there, use.memory_there) if use.memory_there is not None else there


def _on_its_way(place: str) -> bool:
    """Whether an open file is a tensor's storage in shared memory: PyTorch names them so (torch/csrc/StorageSharing.cpp)."""
    with suppress(OSError):
        return os.readlink(place).startswith("/dev/shm/torch_")
    return False
