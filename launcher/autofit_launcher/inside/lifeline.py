"""Asks the kernel to end this process with the one that started it. Nothing happens at import."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Asks the kernel to kill this process when the thread that started it ends (prctl(2)); Linux only, best effort."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library: the launcher's own kill remains
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
