"""A card's UUID -> what the driver says of that card: free memory, and what this process holds outside PyTorch's allocator."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from launcher import cardmemory
from launcher.sizes import MIB

LEAST_CONTEXT_BYTES = 128 * MIB
"""No CUDA context with PyTorch's kernels is smaller: where less seems to be gone, somebody has given memory back meanwhile."""
USUAL_CONTEXT_BYTES = 640 * MIB
"""What is taken for a context that can't be measured: that of an H100 (534 MiB: meta-pytorch/torchcomms#777), rounded up."""


class Card:
    """The card that this process sees as cuda:0. NVML is asked where it can be, else the CUDA runtime."""

    def __init__(self, uuid: str, *, idle_free_bytes: int = 0, nvml_api: Any = None) -> None:
        """``idle_free_bytes``: what was free just before this process started, by the launcher; 0: what is free now."""
        self._uuid = uuid
        self._api = nvml_api if nvml_api is not None else _api(uuid)
        self._idle = idle_free_bytes or self.free()

    def free(self) -> int:
        if self._api is not None:
            with contextlib.suppress(self._api.NVMLError):
                return cardmemory.free_bytes(self._api, self._uuid)
        import torch

        return int(torch.cuda.mem_get_info()[0])  # makes a context where there is none

    def outside(self) -> int:
        """Bytes that this process holds outside the allocator: what is gone since it started, and isn't the allocator's.

        What the driver says of this very process is better, where it does: neighbours that come and go don't count then.
        """
        import torch

        reserved = int(torch.cuda.memory_reserved())
        own = cardmemory.own_bytes(self._api, self._uuid, os.getpid()) if self._api is not None else None
        if own is not None and own >= reserved:
            return own - reserved
        gone = self._idle - self.free() - reserved
        return gone if gone >= LEAST_CONTEXT_BYTES else USUAL_CONTEXT_BYTES


def _api(uuid: str) -> Any:
    """NVML, initialised and able to see the card; None where it can't be had (no package, no driver library, no permission)."""
    try:
        import pynvml

        pynvml.nvmlInit()
        cardmemory.free_bytes(pynvml, uuid)
    except Exception:
        return None
    return pynvml
