"""Asks NVML what is free on a card, and what one process holds of it. Standard library only.

The trainer's process asks this too, in a person's own interpreter. Sizes are bytes.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from .sizes import MIB

SETTLED_BYTES = 64 * MIB
"""Below the size of a CUDA context: a difference in a card's use that is no process of ours."""


def handle_of(nvml: Any, uuid: str) -> Any:
    """NVML's handle of a card. Before version 12 pynvml wanted bytes."""
    try:
        return nvml.nvmlDeviceGetHandleByUUID(uuid)
    except (TypeError, AttributeError):
        return nvml.nvmlDeviceGetHandleByUUID(uuid.encode())


def memory(nvml: Any, handle: Any) -> tuple[int, int]:
    """Returns (total that programs can reach, free); NVMLError where a card has no memory of its own. Only version 2 tells the driver's
    reserve apart from the total."""
    try:
        info = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
        return int(info.total) - int(info.reserved), int(info.free)
    except (nvml.NVMLError, AttributeError, TypeError):  # a driver before 510, or an older pynvml
        info = nvml.nvmlDeviceGetMemoryInfo(handle)
        return int(info.total), int(info.free)


def free_bytes(nvml: Any, uuid: str) -> int:
    """Bytes that are free on the card now."""
    return memory(nvml, handle_of(nvml, uuid))[1]


def own_bytes(nvml: Any, uuid: str, *pids: int) -> int | None:
    """Returns bytes of the card that these processes hold, contexts included; None where the driver doesn't tell (WSL, containers)."""
    with suppress(nvml.NVMLError, AttributeError):
        found = nvml.nvmlDeviceGetComputeRunningProcesses(handle_of(nvml, uuid))
        return sum(int(one.usedGpuMemory) for one in found if int(one.pid) in pids and one.usedGpuMemory) or None
    return None
