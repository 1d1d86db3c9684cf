"""Ends what running children leave behind when the launcher ends, however it ends. Standard library only.

    python -m autofit_launcher.inside.guardian VARIABLE FOLDER      a line "+TOKEN" for each child that is started, "-TOKEN" when it is over

A process of its own beside the launcher, which holds the other end of the pipe; the kernel closes it when the launcher dies, of kill -9,
too. What then still carries a token in its environment's VARIABLE has ``GRACE_S`` after TERM, in which a trainer that can saves a
checkpoint, and is killed. FOLDER, of temporary files, is removed at last.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable

from autofit_launcher.common import procfs

GRACE_S = 20.0


def main(variable: str, temporary: str) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # whoever ends the launcher's whole group ends us by that, and not before
    left: set[str] = set()
    for line in sys.stdin:
        (left.add if line.startswith("+") else left.discard)(line[1:].strip())
    if left:
        end(variable, left)
    shutil.rmtree(temporary, ignore_errors=True)
    return 0


def end(variable: str, those: Iterable[str], *, grace_s: float = GRACE_S) -> None:
    """Ends every process that carries one of the tokens."""
    tokens = tuple(those)
    _signal(procfs.with_variable(variable, tokens), signal.SIGTERM)
    until = time.monotonic() + grace_s
    while (there := procfs.with_variable(variable, tokens)) and time.monotonic() < until:
        time.sleep(0.2)
    while there:
        _signal(there, signal.SIGKILL)
        time.sleep(0.05)
        there = procfs.with_variable(variable, tokens)


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
