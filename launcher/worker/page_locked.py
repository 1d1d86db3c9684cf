"""Page-locked host memory that isn't seen from outside, where anonymous and shared pages are counted (``host_meter``): NVIDIA's driver maps
what it locks (weights that are offloaded, batches of ``pin_memory``) from a file of its own.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from ..shared.report import PAGE_LOCKED

_COUNTED = ("[heap]", "[anon", "/dev/zero", "/dev/shm/", "/memfd:", "/SYSV")


def fact() -> dict[str, int]:
    """The fact of a report, of PyTorch's own allocator for it; empty without a card, and where this torch does not tell (2.15 does)."""
    torch: Any = sys.modules.get("torch")
    with contextlib.suppress(AttributeError, RuntimeError, OSError):  # no torch, a stand-in for it, a card that has failed meanwhile
        if torch.cuda.is_initialized() and (held := int(torch.cuda.host_memory_stats().get("allocated_bytes.peak", 0))):
            block = torch.empty(1, dtype=torch.uint8, pin_memory=True)
            return {} if seen_from_outside(block.data_ptr()) else {PAGE_LOCKED: held}
    return {}


def seen_from_outside(address: int) -> bool:
    """Whether memory of this process is anonymous or shared, by the name of its mapping (proc_pid_maps(5))."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for span, *_, name in (f"{line.rstrip()} ".split(" ", 5) for line in maps):
            first, last = (int(end, 16) for end in span.split("-"))
            if first <= address < last:
                return not name.strip() or name.strip().startswith(_COUNTED)
    return False
