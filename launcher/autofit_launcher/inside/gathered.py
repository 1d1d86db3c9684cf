"""Measures what each batch of a pass leaves in memory: predictions kept for a score, say. A script is likely to join them at the end of the
pass (``torch.cat``), so if one is cut, what is still to come counts twice."""

from __future__ import annotations

import ctypes
import itertools
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from ..common import procfs

LEAST_HELD = 8 * 2**20
"""Less in all isn't worth holding."""
JOINED = 2
"""Times that the batches still to come are in memory at once."""
LOOKS = 3


class Gathered:
    """The memory in use after each batch of a pass. ``most``: number of last batches that are looked at; None: all of them. ``clear``
    begins the next pass."""

    def __init__(self, device: str, most: int | None = None) -> None:
        self._devices = ("cuda", "cpu") if device == "cuda" else ("cpu",)
        self._looks: deque[tuple[int, ...]] = deque(maxlen=most)

    def __len__(self) -> int:
        return len(self._looks)

    def look(self) -> None:
        """Looks at the memory in use, as a batch is through."""
        self._looks.append(tuple(map(live_bytes, self._devices)))

    def clear(self) -> None:
        self._looks.clear()

    def all(self) -> dict[str, int]:
        """Device -> bytes that every batch leaves behind there."""
        if len(self._looks) < LOOKS:
            return dict.fromkeys(self._devices, 0)
        return {device: steady_growth(live) for device, live in zip(self._devices, zip(*self._looks, strict=True), strict=True)}

    def most(self) -> int:
        """Returns the most bytes that a batch leaves behind on a device."""
        return max(self.all().values())


def steady_growth(live: Sequence[int]) -> int:
    """Bytes that every batch adds for good: the least of the last steps, 0 unless all of them grow. The first batch warms up."""
    deltas = [after - before for before, after in itertools.pairwise(live[1:])]
    least, most = min(deltas), max(deltas)
    return least if least > 0 and most <= 2 * least else 0


def live_bytes(device: str) -> int:
    """Returns the bytes in use; of host memory without what the allocator has and may give again."""
    if device == "cuda":
        import torch

        return int(torch.cuda.memory_allocated())
    return procfs.data_bytes() - _free_bytes()


class _Mallinfo2(ctypes.Structure):
    """mallinfo(3): its ten fields are sizes; the ninth is what the allocator has of free blocks."""

    _fields_ = [*((f"_{number}", ctypes.c_size_t) for number in range(8)), ("fordblks", ctypes.c_size_t), ("keepcost", ctypes.c_size_t)]


def _free_bytes() -> int:
    """Returns the free bytes of all arenas; 0 where the C library doesn't tell (glibc does since 2.33)."""
    with suppress(AttributeError, OSError):
        told = ctypes.CDLL(None).mallinfo2
        told.restype = _Mallinfo2
        return int(told().fordblks)
    return 0
