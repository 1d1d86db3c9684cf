"""Reserves stacks for later threads before the base is taken, so that a thread more or less doesn't change the measured memory.

How many threads pools, progress bars and figures have started at some moment is chance, and each stack counts with its full size: 8 MiB
for Python's threads, 2 MiB for Rust's. glibc keeps up to 40 MiB of ended threads' stacks and gives a new thread the smallest that will do.
Stacks put there before the base is taken count as base, in use or not.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path


def stacks(count: int, *, stack_bytes: int = 0) -> None:
    """Starts and ends ``count`` threads at once. ``stack_bytes``: 0 takes the system's default."""
    usual = threading.stack_size(stack_bytes)
    try:
        together = threading.Barrier(count)
        spare = [threading.Thread(target=together.wait) for _ in range(count)]
        for one in spare:
            one.start()
    finally:
        threading.stack_size(usual)
    for one in spare:
        one.join()
        _has_left(one)


def _has_left(thread: threading.Thread, patience_seconds: float = 5) -> None:
    """Waits until the system has ended a joined thread: `join` comes back before that, and glibc lends no stack that is still stood on."""
    until = time.monotonic() + patience_seconds
    while Path(f"/proc/self/task/{thread.native_id}").exists() and time.monotonic() < until:
        time.sleep(0.001)
