"""Loaded into a full run from outside: every 20 micro-batches and at its end, its own peaks, steps and sizes go to the file that
GPU_CHECK_PEAKS names, those of each rank to one beside it. A run that is ended for its time has told what it did.

The driver sampled once a second misses what lasts less; the allocator's own counts miss nothing.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
from typing import Any

from autofit_launcher.inside.start import after_import

FIRST = 3
"""Channels of what a detector's first layer is given."""
TOLD_EVERY = 20
"""Micro-batches."""
RANK = os.environ.get("LOCAL_RANK", "")
"""torchrun's own process trains nothing, and tells nothing."""


class Seen:
    """What one process did."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._pid = os.getpid()
        self.micro_batches = self.steps = 0
        self.sizes: set[int] = set()

    def watch(self, torch: Any) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        backward = torch.autograd.backward

        def counted(*args: Any, **kwargs: Any) -> None:
            backward(*args, **kwargs)
            self.micro_batches += 1
            if self.micro_batches % TOLD_EVERY == 0:
                self.tell()

        def stepped(*_: Any) -> None:
            self.steps += 1

        def entered(module: Any, inputs: Any) -> None:
            if inputs and module.training and getattr(inputs[0], "ndim", 0) == 4 and inputs[0].shape[1] == FIRST:
                self.sizes.add(int(inputs[0].shape[-1]))

        torch.autograd.backward = counted
        register_optimizer_step_post_hook(stepped)
        torch.nn.modules.module.register_module_forward_pre_hook(entered)

    def tell(self) -> None:
        torch = sys.modules.get("torch")
        if torch is None or os.getpid() != self._pid or not self.micro_batches or not torch.cuda.is_initialized():
            return
        stats = torch.cuda.memory_stats()
        told = {
            "allocated_bytes": torch.cuda.max_memory_allocated(),
            "reserved_bytes": torch.cuda.max_memory_reserved(),
            "outside_bytes": _outside(),
            "ooms": int(stats.get("num_ooms", 0)),
            "retries": int(stats.get("num_alloc_retries", 0)),
            "micro_batches": self.micro_batches,
            "steps": self.steps,
            "sizes": sorted(self.sizes),
        }
        with open(f"{self._path}.new", "w", encoding="utf-8") as file:
            json.dump(told, file)
        os.replace(f"{self._path}.new", self._path)


def _outside() -> int:
    """What this process holds outside its allocator; 0 where nobody has said on which card."""
    from autofit_launcher.inside.driver import VisibleCard

    uuids, idle = (os.environ.get(f"GPU_CHECK_{name}", "").split(",") for name in ("UUID", "IDLE"))
    at = int(RANK or 0)
    return VisibleCard(uuids[at], idle_free_bytes=int(idle[at])).outside() if uuids[at] else 0


if path := os.environ.get("GPU_CHECK_PEAKS"):
    seen = Seen(f"{path}.{RANK}" if RANK else path)
    after_import({"torch": seen.watch})
    atexit.register(seen.tell)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # a run that takes too long tells what it did, too
