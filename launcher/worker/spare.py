"""Reserves stacks for later threads before the base is taken, so that a thread more or less doesn't change the measured memory.

How many threads pools, progress bars and figures have started at some moment is chance, and each stack counts with its full size: 8 MiB
for Python's threads, 2 MiB for Rust's. glibc keeps up to 40 MiB of ended threads' stacks and gives a new thread the smallest that will do.
Stacks put there before the base is taken count as base, in use or not.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from ..shared import procfs

if sys.platform == "linux":
    import resource

KEPT_BYTES = 40 << 20
"""Of ended threads' stacks, by glibc."""
STACK_BYTES, LEAST_STACK_BYTES = 128 << 10, 1 << 20
"""Room for a thread that does nothing; less than that of one which does something."""
_ballast: list[mmap.mmap] = []
"""Room for that thread where none is left."""


def stacks(count: int, *, stack_bytes: int = 0) -> None:
    """Starts and ends ``count`` threads at once. ``stack_bytes``: 0 takes the system's default."""
    _load()
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


def _load() -> None:
    if sys.platform == "linux" and not _ballast:
        with suppress(OSError):
            _ballast.append(mmap.mmap(-1, 2 * STACK_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def hand_back() -> bool:
    """Gives the stacks that stand ready back to the kernel, where a limit counts them: a later thread needs new memory for its own.

    A thread ends whose stack is larger than all that glibc keeps (nearly all of it a guard, which no limit counts): for its sake glibc
    lets go all that are older, and then that one, too (``nptl-stack.c``). Returns whether there is more room now.
    """
    if sys.platform != "linux" or resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY:
        return False
    libc, attributes, thread = ctypes.CDLL(None), ctypes.create_string_buffer(256), ctypes.c_ulong()
    before = procfs.data_bytes()
    while _ballast:
        _ballast.pop().close()
    libc.pthread_attr_init(attributes)
    libc.pthread_attr_setguardsize(attributes, ctypes.c_size_t(KEPT_BYTES))
    libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(STACK_BYTES))
    if libc.pthread_create(ctypes.byref(thread), attributes, libc.getpid, None) == 0:
        libc.pthread_join(thread, None)
    libc.pthread_attr_destroy(attributes)
    _load()
    return procfs.data_bytes() <= before - LEAST_STACK_BYTES
