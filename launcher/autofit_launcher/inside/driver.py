"""Asks the driver about a card: free memory, and what this process holds outside PyTorch's allocator."""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import Any

from ..common import card_memory
from ..common.sizes import MIB

LEAST_CONTEXT_BYTES = 128 * MIB
"""The smallest CUDA context with PyTorch's kernels: if less seems to be gone, somebody has given memory back meanwhile."""
USUAL_CONTEXT_BYTES = 640 * MIB
"""The size taken for a context that can't be measured: that of an H100 (534 MiB: meta-pytorch/torchcomms#777), rounded up."""


class VisibleCard:
    """The card of this process. NVML is asked where it can be, else the CUDA runtime."""

    def __init__(self, uuid: str, *, idle_free_bytes: int = 0, number: int | None = None) -> None:
        """``idle_free_bytes``: what was free just before this process started, by the launcher; 0: what is free now. ``number``: the card's
        in this process; None: the current one.
        """
        self._uuid, self._number = uuid, number
        self._api = _api(uuid)
        self._idle = idle_free_bytes or self.free()

    def free(self) -> int:
        if self._api is not None:
            with contextlib.suppress(self._api.NVMLError):
                return card_memory.free_bytes(self._api, self._uuid)
        import torch

        return int(torch.cuda.mem_get_info(self._number)[0])  # makes a context where there is none

    def outside(self, *beside: int) -> int:
        """Bytes that this process holds outside the allocator: what is gone since it started, and isn't the allocator's.

        What the driver says of this very process is better, where it does: neighbours that come and go don't count then. ``beside``:
        processes that train together with it; what they hold of this card counts, too.
        """
        import torch

        reserved = int(torch.cuda.memory_reserved(self._number))
        own = card_memory.own_bytes(self._api, self._uuid, os.getpid(), *beside) if self._api is not None else None
        if own is not None and own >= reserved:
            return own - reserved
        gone = self._idle - self.free() - reserved
        return gone if gone >= LEAST_CONTEXT_BYTES else USUAL_CONTEXT_BYTES


def too_old(built: str | None) -> str:
    """Says that the driver knows no CUDA as new as PyTorch is ``built`` for, so that PyTorch sees no card; empty where it does, or can't be
    asked. A program of CUDA 12.4 runs on every driver that knows CUDA 12 (NVIDIA's minor version compatibility)."""
    with contextlib.suppress(Exception):
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        major, minor = divmod(int(nvml.nvmlSystemGetCudaDriverVersion_v2()), 1000)
        if int(str(built).partition(".")[0]) > major:
            knows = f"PyTorch is built for CUDA {built}, and the driver knows CUDA {major}.{minor // 10} at most"
            return f": {knows}. Renew the driver, or install a PyTorch for CUDA {major}"
    return ""


def _api(uuid: str) -> Any:
    """NVML, initialised and able to see the card; None where it can't be had (no package, no driver library, no permission)."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        card_memory.handle_of(nvml, uuid)
    except Exception:
        return None
    return nvml
