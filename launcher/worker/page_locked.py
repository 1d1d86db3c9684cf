"""Page-locked host memory of this process that isn't seen from outside, where anonymous pages are counted (``host_meter``): NVIDIA's driver
maps what it locks (weights that are offloaded, batches of ``pin_memory``) from a file of its own.
"""

from __future__ import annotations

import sys
from typing import Any

from ..shared.report import PAGE_LOCKED

_ANONYMOUS = ("[heap]", "[anon", "/dev/zero", "/dev/shm/", "/memfd:", "/SYSV")


def fact() -> dict[str, int]:
    """The fact of a report, of PyTorch's own allocator for it; empty without a card, and where this torch does not tell (2.15 does)."""
    torch: Any = sys.modules.get("torch")
    try:
        if torch is None or not torch.cuda.is_initialized():
            return {}
        held = int(torch.cuda.host_memory_stats().get("allocated_bytes.peak", 0))
        if not held:
            return {}
        locked = torch.empty(1, dtype=torch.uint8, pin_memory=True)
        return {} if seen_from_outside(locked.data_ptr()) else {PAGE_LOCKED: held}
    except (AttributeError, RuntimeError, OSError):  # of a stand-in for torch, of a card that has failed meanwhile
        return {}


def seen_from_outside(address: int) -> bool:
    """Whether the memory at an address of this process is anonymous or shared, by the name of its mapping (proc_pid_maps(5))."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            span, _, _, _, _, *name = line.split(maxsplit=5)
            first, last = (int(end, 16) for end in span.split("-"))
            if first <= address < last:
                path = name[0].strip() if name else ""
                return not path or path.startswith(_ANONYMOUS)
    return False
