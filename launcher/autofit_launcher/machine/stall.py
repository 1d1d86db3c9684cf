"""Judges by output and processor time whether a trial or a run stands still."""

from __future__ import annotations

from collections import deque

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

        ``grew``: its output has grown since the last look; ``busy_s``: processor seconds that all its processes have taken so far. One that
        is gone takes its seconds with it, not its work.
        """
        self._worked_s += max(0.0, busy_s - self._busy_s)
        self._busy_s = busy_s
        self._looks.append((now, self._worked_s))
        while self._looks[1][0] <= now - self._least_s:
            self._looks.popleft()
        if grew:
            self._since = now
        since, before = self._looks[0]
        return now - self._since > self._least_s and self._worked_s - before < IDLE * (now - since)
