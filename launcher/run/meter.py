"""Writes the time series of a full run (``history.series``) from its memory use and its output."""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress

from launcher.adapter.log_line import LogLine
from launcher.adapter.progress import VALIDATE, Progress
from launcher.history import series
from launcher.ladder.rungs import Rung
from launcher.machine import devices
from launcher.run.memory_usage import Usage
from launcher.trial.job import Job


class RunMeter:
    """Reads each line of the run's output; ``look`` is called every second, and once more at the end."""

    def __init__(self, job: Job, rung: Rung, usage: Usage) -> None:
        self.rung = rung
        self._job, self.usage = job, usage
        self._series = series.Series(job.folder.series)
        self._pace = Pace()
        self._highest_bytes = 0
        self.progress = Progress()
        self.busy: float | None = None
        """Part of the last moment in which the card computed; None: there is none, or its driver doesn't tell."""

    def read(self, line: str) -> LogLine:
        """Reads the next line of the run's output."""
        said = LogLine(progress=self.progress)
        with suppress(Exception):  # an adapter that stumbles over a line ends no training
            said = self._job.adapter.read_log(line, self.progress, rung=self.rung)
        self.progress = said.progress
        return said

    def look(self, *, ended: bool = False) -> None:
        self._pace.saw(self.progress, at=time.time())
        self.busy = devices.busy(self._job.budget)
        if ended or self.usage.peak_bytes > self._highest_bytes or self._series.due(time.time()):
            self._highest_bytes = self.usage.peak_bytes
            used, peak, host = self.usage.now_bytes, self.usage.lately(), self.usage.host_bytes()
            memory = {"used_bytes": used, "peak_bytes": peak, "host_bytes": host}
            said = {name: getattr(self.progress, name) for name in ("phase", "epoch", "epochs", "step", "steps", "loss", "done")}
            speeds = self._pace.speeds(self.progress.batch)
            self._series.add({"at": round(time.time(), 1), **memory, "busy": self.busy, **said, **speeds})


PACE_S = 60.0
"""Speed is measured over the last minute, or over the last two printed steps if they are further apart."""


class Pace:
    """Computes the speed of a run's steps from when they were printed."""

    def __init__(self) -> None:
        self._told: deque[tuple[float, int]] = deque()

    def saw(self, progress: Progress, *, at: float) -> None:
        steps = progress.steps_done
        if steps is None or progress.phase == VALIDATE or (self._told and steps == self._told[-1][1]):
            return
        if self._told and steps < self._told[-1][1]:
            self._told.clear()  # it counts anew
        self._told.append((at, steps))
        while len(self._told) > 2 and at - self._told[0][0] > PACE_S:
            self._told.popleft()

    @property
    def steps_per_second(self) -> float | None:
        if len(self._told) < 2:
            return None
        (began, first), (ended, last) = self._told[0], self._told[-1]
        return (last - first) / (ended - began) if ended > began else None

    def speeds(self, batch: int | None) -> dict[str, float | None]:
        """The keys of a line of the series. ``batch``: samples of a step; None if unknown."""
        speed = self.steps_per_second
        return {"steps_per_second": speed, "samples_per_second": speed * batch if speed is not None and batch else None}
