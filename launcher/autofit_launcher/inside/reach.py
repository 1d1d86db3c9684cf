"""Processes of a command into which the probe can't come: nothing of them can be seen or cut, and what they write is not redirected."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from ..common import procfs
from ..common.orders import SHIM, VARIABLE

UNREACHED_S = 3.0
"""Seconds that a Python process may run into which the probe can't come: a wrapper may start another one that it can."""


def out_of(pid: int) -> str:
    """A Python process of the command's that has run for some time and into which the probe can't come, or hasn't come though torch is in
    it already; in words, nothing where there is none. However long an interpreter takes to start says nothing."""
    for one in procfs.family(pid):
        with contextlib.suppress(OSError, IndexError):
            name = os.path.basename(os.readlink(f"/proc/{one}/exe"))
            age = time.time() - os.stat(f"/proc/{one}").st_ctime
            words = Path(f"/proc/{one}/cmdline").read_bytes().decode(errors="replace").split("\0")
            if name.startswith("python") and age > UNREACHED_S and (_keeps_out(one) or _has_torch(one)):
                return " ".join(words).strip()[:200]
    return ""


def _keeps_out(pid: int) -> bool:
    """Tells whether a Python was started without the variables that load the probe."""
    environ = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    told = dict(word.partition("=")[::2] for word in environ)
    return VARIABLE not in told or str(SHIM) not in told.get("PYTHONPATH", "").split(os.pathsep)


def _has_torch(pid: int) -> bool:
    return "/libtorch" in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
