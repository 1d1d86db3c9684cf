"""Measures a full run's memory as its trial measured it, from outside (its cost: benchmarks/cost/watching.py).

CPU: VmData of each process above its base. A process that autofit holds to a budget writes its base into ``processes``; for others the
base of the trial's process is taken, which imported the same. Processes that train together in one budget (a script's torchrun) are added
up; of ranks with a budget each, as of cards, the one with most counts.
CUDA: what the driver says that the run's processes hold; where it doesn't tell, what is in use beyond what was before.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autofit_launcher.common import procfs
from autofit_launcher.common.orders import STEPS
from autofit_launcher.common.procfs import Looks
from autofit_launcher.machine import devices, host
from autofit_launcher.machine.devices import Budget

PERIOD_S = 0.02
"""Seconds between two looks at the data segments. A run has hundreds of steps, each with its peak: one that lasts some milliseconds is not
missed for long. Waking up costs some 40 microseconds, a look at one process 30."""
JOIN_PERIOD_S = 0.5
"""Seconds between two looks for processes that have told their base, and at the driver."""


class Usage(Looks):
    """Measures from ``start`` to ``stop``. Sizes are bytes."""

    def __init__(self, pid: int, budget: Budget, processes: Path, *, base_bytes: int) -> None:
        """``processes``: the folder in which processes that took the budget write their base. ``base_bytes``: the base in the trial's
        process.
        """
        self._pid, self._budget, self._processes, self._base_bytes = pid, budget, processes, base_bytes
        if budget.kind == "cuda":
            super().__init__("autofit-usage", self._look_at_card, every_s=JOIN_PERIOD_S)
        else:
            look, search = self._look_at_processes, self._search_for_more
            super().__init__("autofit-usage", look, every_s=PERIOD_S, search=search, search_every_s=JOIN_PERIOD_S)
        self._bases: dict[int, int] = {}
        self._stepping: frozenset[int] = frozenset()
        """Processes that make optimizer steps."""
        self.peak_bytes = 0
        """Most that the run used, as ``TrialReport.peak_bytes`` counts it: of its processes the one with most, or all that train together.
        0 where nothing could be seen."""
        self.now_bytes = 0
        """Bytes that the run uses now."""
        self._lately_bytes, self._told = 0, False

    def lately(self) -> int:
        """The peak since the last call."""
        peak, self._lately_bytes = max(self._lately_bytes, self.now_bytes), 0
        return peak

    def _look_at_card(self) -> None:
        size, told = devices.used_bytes(self._budget, procfs.family(self._pid))
        if told and not self._told:  # what was in use before is no use of the run's
            self._told, self.peak_bytes, self._lately_bytes = True, 0, 0
        self._saw(size if told or not self._told else 0)

    def _look_at_processes(self) -> None:
        if not self._bases:
            self._search_for_more()  # a run that waited for its turn may be over within half a second
        sizes = {pid: max(0, procfs.data_bytes_now(pid) - base) for pid, base in self._bases.items()}
        together = 0 if self._budget.ranks else sum(sizes.get(pid, 0) for pid in self._stepping)
        self._saw(max([0, *sizes.values(), together]))

    def _saw(self, size: int) -> None:
        self.now_bytes = size
        self.peak_bytes = max(self.peak_bytes, size)
        self._lately_bytes = max(self._lately_bytes, size)

    def _search_for_more(self) -> None:
        """Adds processes that have written their base since the last look; the run's own process if none has."""
        bases = {}
        for told in self._processes.glob("*.json") if self._processes.is_dir() else ():
            with suppress(OSError, ValueError, KeyError):
                bases[int(told.stem)] = int(json.loads(told.read_text(encoding="utf-8"))["base_bytes"])
        if not bases and not self._budget.emulated:
            bases[self._pid] = self._base_bytes
        for pid, base in list(bases.items()):  # what they fork is held to the same limit, each by itself
            bases |= {below: base for below in procfs.descendants(pid) if below not in bases}
        self._bases = bases
        self._stepping = frozenset(int(told.stem) for told in self._processes.glob(f"*{STEPS}") if told.stem.isdecimal())


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
        self._next_at, self._again = 0.0, False
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
        trial, others = set(procfs.family(self._pid)), 0
        for pid in trial.union(procfs.descendants(os.getpid())):
            with suppress(OSError):  # it has ended
                own, mapped = procfs.own_bytes(pid)
                if pid in trial:
                    private, shared = private + own, shared + mapped
                else:
                    others += own  # of a run that was begun ahead: it is the run, or ends
        self._again = not self._again and not trial.issuperset(procfs.family(self._pid))
        if self._again:
            return  # pages count more than once where one that was counted for a part of them has forked meanwhile
        there = max(free, host.memory()[1]) + private + shared + others
        use.memory_bytes, use.shared_mapped = max(use.memory_bytes, private + shared), max(use.shared_mapped, shared)
        use.memory_there = min(there, use.memory_there or there)
        if use.shared_before is not None:
            use.shared_taken = max(use.shared_taken, use.shared_before - (host.shared_memory_free() or 0))
        now = time.monotonic()
        self._next_at = now + (now - began) * (1 / SHARE_OF_TIME - 1)
