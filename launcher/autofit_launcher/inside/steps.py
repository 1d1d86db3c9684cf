"""Counts the optimizer steps of a full run in a process that takes a budget anyway, and tells them beside its base (``HELD``).

One public hook of PyTorch's raises a number after each real step. It is written at most once a second, and when the process ends.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..common.orders import HELD, STEPS

WRITE_S = 1.0


class Steps:
    """The optimizers of one process, numbered as they first step."""

    def __init__(self, path: Path) -> None:
        self._path, self._owner = path, os.getpid()
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._counts: list[int] = []
        self._written = 0.0

    def stepped(self, optimizer: Any, *_: Any) -> None:
        """An optimizer has really stepped. Steps that a CUDA graph repeats come to nobody: of such a process nothing is told."""
        cuda = sys.modules["torch"].cuda
        if cuda.is_initialized() and cuda.is_current_stream_capturing():
            self._owner = 0
            self._path.unlink(missing_ok=True)
        number = self._numbers.setdefault(optimizer, len(self._counts))
        if number == len(self._counts):
            self._counts.append(0)
        self._counts[number] += 1
        if time.monotonic() - self._written >= WRITE_S:
            self.write()

    def write(self, *, ended: bool = False) -> None:
        """Leaves the figure where the launcher looks; nothing is waited for, and a full disk ends no training."""
        zero = "deepspeed" in sys.modules  # it has its optimizer step once for each of its groups, and before any training
        if zero or os.getpid() != self._owner or not self._counts:
            return
        self._written = time.monotonic()
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps({"steps": self._counts, "ended": ended}), encoding="utf-8")


def count() -> None:
    """Begins to count in this process, where it is a full run's and PyTorch has the hook (since 2.0)."""
    folder = os.environ.get(HELD)
    if not folder:
        return
    try:
        from torch.optim.optimizer import register_optimizer_step_post_hook
    except ImportError:
        return
    steps = Steps(Path(folder) / f"{os.getpid()}{STEPS}")
    register_optimizer_step_post_hook(steps.stepped)
    atexit.register(steps.write, ended=True)
