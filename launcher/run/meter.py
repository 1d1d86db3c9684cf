"""A running full run, its memory watched and its output read -> its time series, a line a second."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from time import time

from launcher.adapter.progress import Progress
from launcher.history import series
from launcher.ladder.rungs import Rung
from launcher.machine import budget as devices
from launcher.run.memory_usage import Usage
from launcher.trial.job import Job

MOST_WORDS = 500
"""Lines of output between two looks that are read for progress, the last ones of a run that says more. Reading one takes 8 microseconds
(a line of 4000 characters 100); a short run's end alone, a validation's bar and its table, is dozens of them.
"""


class Meter:
    """Told what the run says, and asked to look each second."""

    def __init__(self, job: Job, rung: Rung, usage: Usage) -> None:
        self.rung = rung
        self._job, self._usage = job, usage
        self._series = series.Series(job.folder.series)
        self._pace = series.Pace()
        self._words: deque[str] = deque(maxlen=MOST_WORDS)
        self.progress = Progress()
        self.busy: float | None = None
        """Part of the last moment in which the card computed; None: there is none, or its driver doesn't tell."""

    def said(self, line: str) -> None:
        self._words.append(line)

    def look(self) -> None:
        words, self._words = self._words, deque(maxlen=MOST_WORDS)
        for line in words:
            with suppress(Exception):  # an adapter that stumbles over a line, or has no word for progress, ends no training
                self.progress = self._job.adapter.progress(line, self.progress, rung=self.rung)
        self._pace.saw(self.progress, at=time())
        used, peak, host = self._usage.now_bytes, self._usage.lately(), self._usage.host_bytes()
        self.busy = devices.busy(self._job.budget)
        self._series.add(series.line(self.progress, self._pace, used_bytes=used, peak_bytes=peak, host_bytes=host, busy=self.busy))
