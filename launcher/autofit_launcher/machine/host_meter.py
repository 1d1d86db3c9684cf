"""Measures what a child and all below it take of the machine beside their device, from outside: host memory and /dev/shm.

Others use the same machine: what there is for the child is what is free, and what the child itself has by then.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autofit_launcher.machine import host
from autofit_launcher.shared import procfs
from autofit_launcher.shared.sampling import Looks

LOOK_S = 0.5
SHARE_OF_TIME = 0.2
"""All pages of all processes are walked for at most this part of the time."""


@dataclass(slots=True)
class HostUse:
    """The most that was taken at once, and the least that there was for it; None: no limit, or nobody tells it. Bytes."""

    memory_bytes: int = 0
    memory_there: int | None = None
    shared_before: int | None = None
    """Free in /dev/shm at the beginning; None: there is none."""
    shared_taken: int = 0
    """The most of it that was taken at once, by whomever."""
    shared_mapped: int = 0
    """Shared memory that the processes have mapped; what is on its way between two of them is not."""
    disk_there: int | None = None
    """Disk at the beginning for what the run saves, with what it has saved before."""


class HostMeter(Looks):
    """Measures from ``begin`` to ``stop``. ``use`` says what there is from the beginning."""

    def __init__(self, saves_in: Path) -> None:
        super().__init__("autofit-host", self._look, every_s=LOOK_S)
        self._pid = 0
        self._next_at = 0.0
        self.use = HostUse(
            memory_there=host.memory()[1], shared_before=host.shared_memory_free(),
            disk_there=host.disk_free(saves_in) + host.disk_taken(saves_in),
        )  # fmt: skip

    def begin(self, pid: int) -> None:
        self._pid = pid
        self.start()

    def _look(self) -> None:
        if (began := time.monotonic()) < self._next_at:
            return
        use, free, private, shared = self.use, host.memory()[1], 0, 0
        for pid in (self._pid, *procfs.descendants(self._pid)):
            with suppress(OSError):  # it has ended
                own, mapped = procfs.own_bytes(pid)
                private, shared = private + own, shared + mapped
        there = max(free, host.memory()[1]) + private + shared
        use.memory_bytes, use.shared_mapped = max(use.memory_bytes, private + shared), max(use.shared_mapped, shared)
        use.memory_there = there if use.memory_there is None else min(there, use.memory_there)
        if use.shared_before is not None:
            use.shared_taken = max(use.shared_taken, use.shared_before - (host.shared_memory_free() or 0))
        now = time.monotonic()
        self._next_at = now + (now - began) * (1 / SHARE_OF_TIME - 1)
