"""Watches a full run (memory, output, pace) and ends it if it hangs or diverges. ``run.health``, ``run.losses`` and ``trial.silence``
judge."""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from launcher.adapter.log_line import LogLine
from launcher.adapter.registry import words_of
from launcher.ladder import course
from launcher.ladder.course import Due
from launcher.machine import devices, host, stack_dump
from launcher.machine.process import Child
from launcher.run import health
from launcher.run.attempt import Attempt, Ended
from launcher.run.events import Deviated, Heartbeat, LossNotFinite
from launcher.run.health import Look
from launcher.run.losses import Losses
from launcher.run.meter import RunMeter
from launcher.run.steps_made import StepsMade
from launcher.shared import procfs
from launcher.shared.memory_failures import loses_a_batch
from launcher.shared.sizes import format_size
from launcher.trial.job import Job
from launcher.trial.silence import LOST_S, Silence


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark about the run's pace."""

    what: str
    ends: Ended | None = None
    """Why the run is to be ended; None: it goes on."""


class Pacing:
    """Judges the pace of one attempt, every second."""

    def __init__(self, job: Job, *, after_a_stall: bool = False) -> None:
        self._job = job
        self._steps = health.StepSilence(least_s=job.recipe.recover.stall_s, after_a_stall=after_a_stall)
        self._cliffs = health.Cliffs()
        self._fell = False

    def look(self, look: Look) -> Iterator[Remark]:
        if hangs := self._steps.look(look):
            yield Remark(hangs, Ended.STALLED)
        if (cliff := self._cliffs.look(look)) is not None and not self._fell:
            self._fell = True
            yield self._of_cliff(cliff, look)

    def _of_cliff(self, cliff: tuple[float, float], look: Look) -> Remark:
        budget = self._job.budget
        evidence = health.spilled(
            cliff, used_bytes=look.used_bytes, cap_bytes=budget.cap_bytes, budget_bytes=budget.budget_bytes, may_spill=budget.may_spill
        )
        if evidence:
            return Remark(f"spills out of the card: {evidence}", Ended.SPILLED)
        memory = f"; {format_size(look.used_bytes)} of {format_size(budget.budget_bytes)} in use" if look.used_bytes else ""
        card = f", the card {look.busy:.0%} busy" if look.busy is not None else ""
        return Remark(f"has slowed down: {health.steeper(cliff)}{memory}{card}")


HEARTBEAT_S = 30.0


SAMPLE_S = 1.0


END_GRACE_S = 5.0
"""Seconds between TERM and KILL for a run that autofit itself ends: nothing it could still save is of use."""


NEAR_LIMIT = 0.98


POLL_S = 0.5
"""Seconds between two polls. The run's end and signals are noticed at once all the same; more polls would slow the run down."""


class RunWatch:
    """Called at every poll; cheap. Samples memory, records a heartbeat twice a minute, and ends a run that hangs or diverges."""

    def __init__(self, child: Child, job: Job, meter: RunMeter, attempts: Sequence[Attempt], *, due: Due | None = None) -> None:
        files = job.folder.attempt(attempts[-1].number)
        self._steps, self._due, self._too_many = StepsMade(files.processes), due, False
        self._times = meter.rung.accumulation / job.ladder.asked.accumulation
        self._process, self._child = psutil.Process(child.pid), child
        self._job, self._files = job, files
        rules = job.recipe.recover
        self._losses, self._silence = Losses(rules.nan_reports), Silence(child.awake.seconds, least_s=rules.stall_s)
        self._waits: Silence | None = None
        """Since a loader's worker has lost a batch."""
        self._pace = Pacing(job, after_a_stall=any(one.ended is Ended.STALLED for one in attempts[:-1]))
        self._meter = meter
        self._began = self._sampled = self._told = child.awake.seconds
        self._diverges_since: float | None = None
        self._words, self._deviations = words_of(job.adapter), set[str]()
        self._logs = [Log(path, meter.read, self._heard) for path in (files.stdout, files.stderr)]
        self.peak_bytes = 0
        self.peak_device_bytes = 0
        self.host_free = 1.0
        """Part of the host's memory that was free when last looked at."""
        self.at_limit = False
        """Its data segments stood at their limit when they were last looked at."""
        self.ended_for: Ended | None = None
        """Why the run was ended from here."""
        self.evidence = ""

    def __call__(self) -> None:
        now = self._child.awake.seconds
        self._look_at_limit()
        if now - self._sampled < SAMPLE_S - POLL_S / 2:
            return
        self._sampled = now
        there, free, _ = host.memory()
        self.host_free = free / there
        grew = self.look()
        self._look_at_steps()
        self._look_for_life(now, grew=grew)
        self._look_at_pace(now, grew=grew)
        with contextlib.suppress(psutil.Error):
            resident = self._process.memory_info().rss
            device = devices.used_bytes(self._job.budget, (self._process.pid, *procfs.descendants(self._process.pid)))
            self.peak_bytes = max(self.peak_bytes, resident)
            self.peak_device_bytes = max(self.peak_device_bytes, device)
            if now - self._told >= HEARTBEAT_S:
                self._told = now
                self._job.tell(self._heartbeat(now - self._began, resident, device))

    def _heartbeat(self, seconds: float, resident_bytes: int, device_bytes: int) -> Heartbeat:
        return Heartbeat(
            budget=self._job.budget, seconds=seconds, resident_bytes=resident_bytes, device_bytes=device_bytes,
            used_bytes=self._meter.usage.now_bytes, peak_bytes=self._meter.usage.peak_bytes,
        )  # fmt: skip

    def look(self, *, ended: bool = False) -> bool:
        """Reads the run's new output and writes a line of its series; ``ended``: for the last time. Returns whether there was output."""
        grown = [log.look(ended=ended) for log in self._logs]
        self._meter.look(ended=ended)
        if self._losses.since != self._diverges_since:
            self._diverges_since = self._losses.since
            self._job.tell(LossNotFinite(since=self._diverges_since))
        return any(grown)

    def _look_for_life(self, now: float, *, grew: bool) -> None:
        busy_s = procfs.work_seconds(self._child.pid)
        in_vain = self._waits is not None and self._waits.look(now, grew=grew, busy_s=busy_s) == "stalled"
        said = self._silence.look(now, grew=grew, busy_s=busy_s)
        if in_vain and self.ended_for is None:
            self.evidence = f"a loader's worker has lost a batch, and nothing has happened for {LOST_S:.0f} s: it waits for it forever"
            self._see_stacks()
            self._end(Ended.STALLED, f"is ended; its stacks: {self._files.stalled}")
        elif said == "silent":
            self._tell_otherwise("", "has printed nothing for long, but is computing")
        elif said == "stalled" and self.ended_for is None:
            self.evidence = "no output and no processor time used"
            self._see_stacks()
            self._end(Ended.STALLED, f"stands still; its stacks: {self._files.stalled}")

    def _see_stacks(self) -> None:
        """Writes down where its processes stand, and which rank the others wait for."""
        said = stack_dump.record(self._child, self._files.stalled, told=self._files.processes)
        if absent := stack_dump.absent(said):
            self.evidence = f"{absent}; {self.evidence}"

    def _look_at_pace(self, now: float, *, grew: bool) -> None:
        meter = self._meter
        for found in self._pace.look(Look(now=now, progress=meter.progress, grew=grew, used_bytes=meter.usage.now_bytes, busy=meter.busy)):
            if found.ends is None or self.ended_for is not None:
                self._tell_otherwise("", found.what)
                continue
            self.evidence = found.what
            if found.ends is Ended.STALLED:
                self._see_stacks()
                self._end(Ended.STALLED, f"computes, but makes no steps; its stacks: {self._files.stalled}")
            else:
                self._end(found.ends, "is ended for that", grace_s=self._job.recipe.run.grace_s)

    def _look_at_steps(self) -> None:
        """Tells once, as soon as it is certain, that the run makes more optimizer steps than are due."""
        if self._due is None or self._too_many or (made := self._steps.counted()) is None:
            return
        if course.too_many(made, self._due, times=self._times):
            self._too_many = True
            what = f"makes more optimizer steps than asked: {made} by now, {self._due.words} are due in all by {self._due.by}"
            self._tell_otherwise("", what)

    def optimizer_steps(self) -> int | None:
        """Steps that the run has made, once it has ended; None if unknown."""
        return self._steps.in_all(self._meter.progress, self._due)

    @property
    def stopped_early(self) -> str:
        """The line in which the run says that it stopped early; else empty."""
        return self._steps.stopped_early

    @property
    def ended_at(self) -> str:
        """The last that it told of its epochs, where it ended before its length."""
        return self._meter.progress.short_of_its_length

    def _look_at_limit(self) -> None:
        """Notes whether the run's process is close to its limit of data segments; once it has ended, the last note stays."""
        with contextlib.suppress(OSError, ValueError):
            soft, _ = resource.prlimit(self._child.pid, resource.RLIMIT_DATA)
            self.at_limit = soft != resource.RLIM_INFINITY and procfs.data_bytes(self._child.pid) >= NEAR_LIMIT * soft

    @property
    def not_finite(self) -> str:
        """The run's last report of its loss, if that is not finite; else empty."""
        return self._losses.line

    @property
    def gradients(self) -> str:
        """The run's last report of its gradients, if that is not finite; else empty."""
        return self._losses.gradients

    def _heard(self, line: str, said: LogLine, at: float) -> None:
        """Takes in a line of the run's output. Ends the run if its loss stays not finite, unless the recipe lets it go on."""
        self._steps.heard(line, said)
        if self._waits is None and loses_a_batch(line):
            self._waits = Silence(self._child.awake.seconds, least_s=LOST_S)
            self._tell_otherwise(line, "has lost a batch of a loader's worker")
        if (deviation := self._words.deviation(line)) and deviation not in self._deviations:
            self._deviations.add(deviation)
            self._tell_otherwise(line, deviation)
        reports = self._losses.saw(line, said, at=at)
        if reports == "first":
            self._tell_otherwise(line, "has a loss that is not finite")
        elif reports == "enough" and self._job.recipe.recover.on_nan != "go_on" and self.ended_for is None:
            self.evidence = line
            self._end(Ended.DIVERGED, "has a loss that stays not finite, and is ended")

    def _end(self, why: Ended, words: str, *, grace_s: float = END_GRACE_S) -> None:
        self.ended_for = why
        self._tell_otherwise(self.evidence, words)
        if self._child.process.poll() is None:
            self._child.end(grace_s=grace_s)

    def leaving(self, signal_name: str) -> None:
        """Tells that a signal was passed on to the run."""
        grace = f"has up to {self._job.recipe.run.grace_s:.0f} s to save (run.grace_s); a second signal ends it now"
        self._tell_otherwise(signal_name, grace)

    def _tell_otherwise(self, line: str, what: str) -> None:
        self._job.tell(Deviated(what=what, evidence=line))


MOST_LINES = 2000
"""At most this many lines are read between two looks, the last ones. A line takes about 20 microseconds (500 characters: up to 90)."""


class Log:
    """One of the run's logs, read as it grows.

    A line gets the time of the last look before it came. If several reports of a loss come at once, the run buffers its output: they get
    the time of the last output before them.
    """

    def __init__(self, path: Path, read: Callable[[str], LogLine], heard: Callable[[str, LogLine, float], None]) -> None:
        self._path, self._read, self._heard = path, read, heard
        self._at = 0
        self._rest = b""
        self._looked = self._grew = time.time()

    def look(self, *, ended: bool = False) -> bool:
        """Reads new lines; returns whether the file has grown. ``ended``: nothing more comes, so the last line needs no newline."""
        with contextlib.suppress(OSError), self._path.open("rb") as file:
            file.seek(self._at)
            fresh = file.read()
            self._at += len(fresh)
            *whole, self._rest = (self._rest + fresh).replace(b"\r", b"\n").split(b"\n")
            if ended:
                whole, self._rest = [*whole, self._rest], b""
            lines = [line.decode("utf-8", errors="replace").strip()[:500] for line in whole[-MOST_LINES:]]
            said = [self._read(line) for line in lines]
            at = self._grew if sum(one.loss_finite is not None for one in said) > 1 else self._looked
            self._looked = time.time()
            self._grew = self._looked if fresh else self._grew
            for line, one in zip(lines, said, strict=True):
                self._heard(line, one, at)
            return bool(fresh)
        return False
