"""Stacks of threads that have ended -> room for threads to come, so that a thread more or less is no memory more or less.

How many threads a pool, a progress bar or a figure has started by some moment is luck, and a stack is data of its full size that is hardly
touched: 8 MiB of Python's, 2 MiB of Rust's. glibc keeps up to 40 MiB of ended threads' stacks, and gives each new thread the smallest that
will do. Put there before a base is taken, they count as base whether they are in use by then or not.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path


def stacks(count: int, *, stack_bytes: int = 0) -> None:
    """So many threads begin together and end. ``stack_bytes``: 0 is the system's usual."""
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
