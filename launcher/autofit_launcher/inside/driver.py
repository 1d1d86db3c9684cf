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


def _api(uuid: str) -> Any:
    """NVML, initialised and able to see the card; None where it can't be had (no package, no driver library, no permission)."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        card_memory.handle_of(nvml, uuid)
    except Exception:
        return None
    return nvml
