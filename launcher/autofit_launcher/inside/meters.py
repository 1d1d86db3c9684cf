"""Meters of the memory that a process uses on its device: PyTorch's CUDA allocator and the driver on a card; data segments on a CPU."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

from ..common import procfs
from ..common.orders import Orders
from ..common.procfs import Looks
from .budget import Taken, number_of, tighten
from .driver import VisibleCard

SAMPLE_PERIOD_S = 0.002
"""Seconds between two looks at the data segments; each costs the interpreter's lock once."""
FAMILY_PERIOD_S = 0.05
"""Seconds between two looks for processes that this one has forked."""


class Meter:
    """A meter of the memory in use on a kind of device, in bytes; this one tells nothing, before a budget is taken."""

    def reset(self) -> None:
        """Forgets the peaks: a phase begins."""

    def sample(self) -> None:
        """Takes a look after a batch; may wait for the device to finish."""

    def peaks(self) -> dict[str, int]:
        """Returns the most that was held since the last reset, by ``PhaseUse``'s names."""
        return {}

    def stepped(self) -> None:
        """The optimizer has stepped for the first time: everything a step needs has been loaded."""

    def leave_out(self, pid: int) -> None:
        """Leaves out what this process, a child of ours, needs: it isn't the trainer's."""

    def close(self) -> None:
        """Stops metering."""


def meter_of(orders: Orders, taken: Taken) -> Meter:
    return CudaMeter(orders, taken) if orders.device == "cuda" else CpuMeter(taken.base_bytes)


class CpuMeter(Meter, Looks):
    """Data segments (VmData, what RLIMIT_DATA counts) of this process above a base.

    What this process forks (data loader workers) is held to the same limit, each by itself: the largest of all is what is told.
    """

    def __init__(self, base_bytes: int) -> None:
        """``base_bytes``: VmData when the budget was taken."""
        Looks.__init__(self, "autofit-vmdata", self.sample, every_s=SAMPLE_PERIOD_S, search=self._join, search_every_s=FAMILY_PERIOD_S)
        self._base_bytes = base_bytes
        self._family = {os.getpid()}
        self._left_out: set[int] = set()
        self._peak, self._looking = 0, threading.Lock()
        usual = threading.stack_size(256 * 1024)  # a usual stack of 8 MiB would count as data, inside the budget
        self.start()
        threading.stack_size(usual)

    def _join(self) -> None:
        """Processes that were forked since the last look."""
        self._family = self._family.union(procfs.descendants(os.getpid())) - self._left_out

    def leave_out(self, pid: int) -> None:
        self._left_out.add(pid)
        self._family = self._family - {pid}

    def reset(self) -> None:
        with self._looking:  # what is seen just now was before
            self._peak = 0
        self.sample()

    def sample(self) -> None:
        with self._looking:
            self._peak = max(self._peak, *(procfs.data_bytes_now(pid) for pid in self._family))

    def peaks(self) -> dict[str, int]:
        taken = max(0, self._peak - self._base_bytes)
        return {"allocated_bytes": taken, "reserved_bytes": taken}

    def close(self) -> None:
        self.stop()


class CudaMeter(Meter):
    """PyTorch's allocator on this process's card, and what this process holds of the card outside of it.

    Peaks of the allocator are its own and exact; what is outside is looked at when the optimizer has stepped first (kernels are loaded
    when they are first used) and at the end of each phase. Where it has grown, the allocator gets less.
    """

    def __init__(self, orders: Orders, taken: Taken) -> None:
        import torch

        self._cuda = torch.cuda
        self._cap_bytes = taken.cap_bytes
        self._number = number_of(orders.device_uuid)
        self._others = Path(orders.folder).parent if orders.cards else None
        self._keeps_peaks = bool(orders.cards)
        self._card = VisibleCard(orders.device_uuid, idle_free_bytes=orders.idle_free_bytes, number=self._number)
        self._outside = taken.base_bytes
        self._ooms = self._retries = 0

    def _count(self, name: str) -> int:
        return int(self._cuda.memory_stats(self._number).get(name, 0))

    def _look_outside(self) -> None:
        others = self._others.iterdir() if self._others is not None else ()  # processes of the same command may hold some of this card
        outside = self._card.outside(*(int(path.name) for path in others if path.name.isdecimal()))
        if outside > self._outside:
            self._outside = outside
            tighten(self._cap_bytes, outside, self._number)

    def reset(self) -> None:
        self._look_outside()
        if not self._keeps_peaks:
            self._cuda.reset_peak_memory_stats(self._number)
        self._keeps_peaks = False  # of a process that may have been on its card for some time before it was known which one
        self._ooms, self._retries = self._count("num_ooms"), self._count("num_alloc_retries")

    def sample(self) -> None:
        self._cuda.synchronize(self._number)

    def stepped(self) -> None:
        self._cuda.synchronize(self._number)
        self._look_outside()

    def peaks(self) -> dict[str, int]:
        """A failed allocation is evidence, not guilt: cuDNN tries plans until one's workspace can be had (Conv_v8.cpp), on purpose."""
        with contextlib.suppress(Exception):  # after a failure that broke the context
            self._look_outside()
        return {
            "allocated_bytes": self._cuda.max_memory_allocated(self._number),
            "reserved_bytes": self._cuda.max_memory_reserved(self._number),
            "outside_bytes": self._outside,
            "retries": self._count("num_alloc_retries") - self._retries,
            "ooms": self._count("num_ooms") - self._ooms,
        }
