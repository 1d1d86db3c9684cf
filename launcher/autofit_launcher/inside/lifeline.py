"""Ends this process with the one that started it, and one that it has started with all below it. Nothing happens at import."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

from ..common import procfs

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Asks the kernel to kill this process when the thread that started it ends (prctl(2)); Linux only, best effort."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library: the launcher's own kill remains
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def kill(pid: int) -> None:
    """Kills a process, what it has started, and what is left of the session that it leads."""
    for one in procfs.family(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
