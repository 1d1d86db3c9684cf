"""Judges by output and processor time whether a trial or a run stands still, and writes down where its processes stand, as they tell
themselves."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from pathlib import Path

from autofit_launcher.common import files
from autofit_launcher.common.orders import STACKS_OF
from autofit_launcher.machine import process
from autofit_launcher.machine.process import Child

ANSWERS_S = 1.0
"""Seconds that processes may take to tell their stacks, which they do from within whatever they hang in."""


def record(child: Child, path: Path, *, told: Path) -> str:
    """Writes to ``path`` where the child's processes stand, and returns it. ``told``: the folder of files in which those that listen for it
    tell their stacks (``inside.stacks``)."""
    for one in child.descendants():
        with contextlib.suppress(OSError):
            os.truncate(told / f"{one.pid}{STACKS_OF}", 0)  # it isn't there where nobody listens, and the signal would end the process
            process.ask_for_stacks(one.pid)
    time.sleep(ANSWERS_S)
    said = "\n".join(f"process {file.stem}:\n{files.tail(file)}" for file in sorted(told.glob(f"*{STACKS_OF}")))
    with contextlib.suppress(OSError):
        path.write_text(said, encoding="utf-8")
    return said


IDLE = 0.01
"""Fraction of one core. Below this, nothing is being computed."""


class Silence:
    """Measures how long nothing has come from a run or a trial. Times are monotonic seconds, passed in.

    Whether it is at work is judged by what it has computed over the last ``least_s``: hours of work before say nothing of a process that
    stands still now, and one that waits for a core does not work either.
    """

    def __init__(self, now: float, *, least_s: float) -> None:
        self._least_s, self._since = least_s, now
        self._busy_s = self._worked_s = 0.0
        self._looks = deque([(now, 0.0)])

    def look(self, now: float, *, grew: bool, busy_s: float) -> bool:
        """Tells whether it stands still: silent for too long, and nothing is being computed.

        ``grew``: its output has grown since the last look; ``busy_s``: processor seconds that all its processes have taken so far.
        """
        self._worked(now, busy_s)
        if grew:
            self._since = now
        since, before = self._looks[0]
        return now - self._since > self._least_s and self._worked_s - before < IDLE * (now - since)

    def _worked(self, now: float, busy_s: float) -> None:
        """Notes the work done by now; keeps looks of ``least_s``. A process that is gone takes its seconds with it, not its work."""
        self._worked_s += max(0.0, busy_s - self._busy_s)
        self._busy_s = busy_s
        self._looks.append((now, self._worked_s))
        while self._looks[1][0] <= now - self._least_s:
            self._looks.popleft()
