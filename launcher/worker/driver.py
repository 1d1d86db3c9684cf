"""A card's number for NVML -> a function that tells how much of the whole card is in use, neighbours and contexts included."""

from __future__ import annotations

from collections.abc import Callable


def used_by_nvml(device_index: int) -> Callable[[], int] | None:
    """A function giving the bytes in use on the card, by NVML; None where NVML cannot be had."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(device_index)
    except Exception:  # no package, no driver library, no permission
        return None
    return lambda: int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)


def used_by_runtime() -> int:
    """The same sum for cuda:0 by the CUDA runtime, which needs a context for it."""
    import torch

    free, total = torch.cuda.mem_get_info()
    return int(total - free)
