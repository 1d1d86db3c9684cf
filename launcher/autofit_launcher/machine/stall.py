"""Judges by output and processor time whether a trial or a run stands still, and writes down where its processes stand, as they tell
themselves."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from pathlib import Path

import psutil

from autofit_launcher.common.orders import STACKS_OF
from autofit_launcher.machine import process
from autofit_launcher.machine.process import Child

ANSWERS_S = 2.0
"""Seconds that a process may take to tell its stacks, which it does from within whatever it hangs in."""
WHOLE_S = 0.05
"""Seconds without growth after which a dump is whole."""


def record(child: Child, path: Path, *, told: Path) -> str:
    """Writes the stacks to ``path`` and returns them. What can't be seen is left out.

    ``told``: the folder in which processes that are asked tell theirs (``inside.stacks``).
    """
    said = "\n\n".join(_of(one, told) for one in child.descendants()) + "\n"
    with contextlib.suppress(OSError):
        path.write_text(said, encoding="utf-8")
    return said


def _of(one: psutil.Process, told: Path) -> str:
    with contextlib.suppress(psutil.Error):
        rank = f", rank {number}" if (number := one.environ().get("RANK")) else ""
        head = f"process {one.pid} ({one.status()}{rank}): {' '.join(one.cmdline())[:300]}"
        return f"{head}\n{_told(one.pid, told) or 'it tells no stacks'}"
    return f"process {one.pid} is gone"


def _told(pid: int, folder: Path) -> str:
    """Stacks that the process tells of itself, in whatever it hangs; empty if it doesn't listen."""
    path, said, until = folder / f"{pid}{STACKS_OF}", "", time.monotonic() + ANSWERS_S
    with contextlib.suppress(OSError):
        os.truncate(path, 0)  # it isn't there where nobody listens, and the signal would end the process
        process.ask_for_stacks(pid)
        while time.monotonic() < until:
            time.sleep(WHOLE_S)
            before, said = said, path.read_text(encoding="utf-8", errors="replace")
            if said and said == before:
                break
    return said


IDLE = 0.01
"""Fraction of one core. Below this, nothing is being computed."""
PATIENCE = 10
"""A pause may last this many times the longest pause that ended by itself."""


class Silence:
    """Measures how long nothing has come from a run or a trial. Times are monotonic seconds, passed in.

    Whether it is at work is judged by what it has computed over the last ``least_s``: hours of work before say nothing of a process that
    stands still now, and one that waits for a core does not work either.
    """

    def __init__(self, now: float, *, least_s: float) -> None:
        self._least_s, self._since, self._longest_s = least_s, now, 0.0
        self._spoke = False
        self._busy_s = self._worked_s = self._worked_then_s = 0.0
        self._looks = deque([(now, 0.0)])

    def look(self, now: float, *, grew: bool, busy_s: float) -> bool:
        """Tells whether it stands still: silent for too long, and nothing is being computed.

        ``grew``: its output has grown since the last look; ``busy_s``: processor seconds that all its processes have taken so far.
        """
        self._worked(now, busy_s)
        silent = now - self._since
        if grew:
            idle = self._worked_s - self._worked_then_s < IDLE * silent
            if self._spoke and idle:  # how long it took to start, or was at work, says nothing of how long it may stand still
                self._longest_s = max(self._longest_s, silent)
            self._spoke = True
            self._since, self._worked_then_s = now, self._worked_s
            return False
        if silent <= max(self._least_s, PATIENCE * self._longest_s):
            return False
        since, before = self._looks[0]
        return self._worked_s - before < IDLE * (now - since)

    def _worked(self, now: float, busy_s: float) -> None:
        """Notes the work done by now; keeps looks of ``least_s``. A process that is gone takes its seconds with it, not its work."""
        self._worked_s += max(0.0, busy_s - self._busy_s)
        self._busy_s = busy_s
        self._looks.append((now, self._worked_s))
        while self._looks[1][0] <= now - self._least_s:
            self._looks.popleft()
