"""What a running trainer prints and how much processor time it takes -> whether it diverges, or stands still. Pure; ``supervise`` acts."""

from __future__ import annotations

import re
from collections import deque

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_YOLO = re.compile(r"^\s*(\d+)/\d+\s+[\d.]+[GM]\s+(.+)")
"""Ultralytics' row: epoch, memory, the running means of its losses, instances, size. A mean stays NaN to the end of its epoch."""
_LOSS = re.compile(
    r"\b(?:train(?:ing)?[_ ])?loss['\"]?\s*[:=]?\s*['\"]?([-+]?(?:nan|inf(?:inity)?|\d[\d.]*(?:e[-+]?\d+)?))\b", re.IGNORECASE
)
_OF_VALIDATION = re.compile(r"(val|valid|validation|test|eval|dev)[ _/.-]*$", re.IGNORECASE)
_GRADIENTS = re.compile(
    r"\bgrad(?:ient)?s?[_ ]?norm['\"]?\s*[:=]?\s*['\"]?([-+]?(?:nan|inf(?:inity)?|\d[\d.]*(?:e[-+]?\d+)?))\b", re.IGNORECASE
)
_NOT_FINITE = re.compile(r"^[-+]?(nan|inf(inity)?)$", re.IGNORECASE)
IDLE = 0.01
"""Less than this part of one core: nothing is being computed."""
BUSY = 0.1
"""More than this part of one core: it computes; less may be a process that waits."""
PATIENCE = 10
"""A run may stand still for so many times as long as it has come back from."""


def loss_report(line: str) -> tuple[str, bool] | None:
    """(what the report is about, whether the loss is a finite number); None for a line that tells no loss.

    Reports about the same thing (an epoch) count once; an empty text is about itself.
    """
    said = _ANSI.sub("", line)
    if row := _YOLO.match(said):
        return row[1], not any(_NOT_FINITE.match(word) for word in row[2].split())
    for found in _LOSS.finditer(said):
        if not _OF_VALIDATION.search(said[: found.start()]):
            return "", not _NOT_FINITE.match(found[1])
    return None


def gradients_report(line: str) -> bool | None:
    """Whether the norm of the gradients that a line tells is a finite number; None for a line that tells none."""
    found = _GRADIENTS.search(_ANSI.sub("", line))
    return not _NOT_FINITE.match(found[1]) if found is not None else None


class Losses:
    """Loss reports, as they come. One that is not finite and is followed by finite ones has been got over: a step that mixed precision left
    out, say."""

    def __init__(self, most: int) -> None:
        self._most, self._streak, self._about = most, 0, ""
        self.since: float | None = None
        """When the first of the reports in a row that aren't finite was printed, at the earliest; None: the last report was finite."""
        self.line = ""
        """The last report that was not finite; empty where ``since`` is None."""
        self.gradients = ""
        """The last report of the gradients' norm, where that is not finite. Hugging Face's Trainer logs the mean of earlier losses in the
        place of one that isn't finite (its default), and the norm as it is. A step that mixed precision left out has such a norm, too."""

    def saw(self, line: str, *, at: float) -> str:
        """ "first" and "enough" (``most`` in a row) for reports that aren't finite, once each; else nothing. ``at``: printed since."""
        if (gradients := gradients_report(line)) is not None:
            self.gradients = "" if gradients else line
        report = loss_report(line)
        if report is None:
            return ""
        about, finite = report
        if finite:
            self._streak, self._about, self.since, self.line = 0, "", None, ""
            return ""
        self.line = line
        if about and about == self._about:
            return ""
        self._about = about
        self._streak += 1
        self.since = at if self.since is None else self.since
        return "enough" if self._streak == self._most else "first" if self._streak == 1 else ""


class Course:
    """How long a trial that computes has come no further. Times are monotonic seconds, passed in."""

    def __init__(self, now: float, *, least_s: float) -> None:
        self._least_s, self._since, self._longest_s, self._busy_s = least_s, now, 0.0, 0.0

    def look(self, now: float, *, further: bool, busy_s: float) -> bool:
        """Whether it goes round in circles: it has computed, and come no further, for longer than it ever took and came back from.

        ``busy_s``: processor seconds that all its processes have taken so far.
        """
        passed = now - self._since
        if further:
            self._longest_s = max(self._longest_s, passed)
            self._since, self._busy_s = now, busy_s
            return False
        computes = busy_s - self._busy_s > BUSY * passed
        return computes and passed > max(self._least_s, PATIENCE * self._longest_s)


class Silence:
    """How long nothing has come from a run or a trial. Times are monotonic seconds, passed in.

    Whether it is at work is judged by what it has computed over the last ``least_s``: hours of work before say nothing of a process that
    stands still now, and one that waits for a core does not work either.
    """

    def __init__(self, now: float, *, least_s: float) -> None:
        self._least_s, self._since, self._longest_s = least_s, now, 0.0
        self._told = self._spoke = False
        self._busy_s = self._worked_s = self._worked_then_s = 0.0
        self._looks = deque([(now, 0.0)])

    def look(self, now: float, *, grew: bool, busy_s: float) -> str:
        """ "stalled": silent for too long, and nothing is being computed; "silent", once each time: as long, but at work. Else nothing.

        ``grew``: its output has grown since the last look; ``busy_s``: processor seconds that all its processes have taken so far.
        """
        self._worked(now, busy_s)
        silent = now - self._since
        if grew:
            idle = self._worked_s - self._worked_then_s < IDLE * silent
            if self._spoke and idle:  # how long it took to start, or was at work, says nothing of how long it may stand still
                self._longest_s = max(self._longest_s, silent)
            self._spoke = True
            self._since, self._worked_then_s, self._told = now, self._worked_s, False
            return ""
        if silent <= max(self._least_s, PATIENCE * self._longest_s):
            return ""
        since, before = self._looks[0]
        if self._worked_s - before < IDLE * (now - since):
            return "stalled"
        told, self._told = self._told, True
        return "" if told else "silent"

    def _worked(self, now: float, busy_s: float) -> None:
        """One more look at the work done; those of ``least_s`` are kept. A process that is gone takes its seconds with it, not its work."""
        self._worked_s += max(0.0, busy_s - self._busy_s)
        self._busy_s = busy_s
        self._looks.append((now, self._worked_s))
        while self._looks[1][0] <= now - self._least_s:
            self._looks.popleft()
