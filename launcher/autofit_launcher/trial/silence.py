"""Judges by output and processor time whether a trial or a run stands still. Pure.

What only a run shows (steps that stop coming, a slower pace) is judged in ``full_run.health``.
"""

from __future__ import annotations

from collections import deque

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
