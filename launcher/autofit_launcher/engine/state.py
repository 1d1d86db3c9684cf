"""The state of a launch and of its trials as plain values, and their shape in the record."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from autofit_launcher.adapter.commands import Command
from autofit_launcher.engine.reuse import Reuse
from autofit_launcher.errors import ExitCode
from autofit_launcher.history.records import (
    FORMAT,
    AttemptRecord,
    DeviceRecord,
    KeptRecord,
    LadderRecord,
    MemoryRecord,
    Record,
    RungRecord,
    RunRecord,
    SameTrainingRecord,
)
from autofit_launcher.ladder import course
from autofit_launcher.ladder.rungs import Rung
from autofit_launcher.ladder.same_training import PROVEN, SameTraining, unproven
from autofit_launcher.ladder.verdict import Kind
from autofit_launcher.machine import headroom
from autofit_launcher.shared.files import plain
from autofit_launcher.shared.memory_failures import OF_MACHINE
from autofit_launcher.shared.report import VERSIONS
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.rung_zero import Misread
from autofit_launcher.trial.trial import Trial

if TYPE_CHECKING:
    from autofit_launcher.engine.below import Could


class Status(StrEnum):
    """The state of a launch, or its end. ``record.json`` says what really happened."""

    TRYING = "trying"  # trials are being made; found in a record whose launcher is gone: it was killed then
    RUNNING = "running"  # the full run is on its way; likewise
    DONE = "done"
    NO_RUNG_FITS = "no_rung_fits"
    CRASHED = "crashed"  # a trial ended so, which no lower rung cures; likewise the next three
    STALLED = "stalled"
    VACUOUS = "vacuous"
    DIVERGED = "diverged"  # or the full run did: its loss was not finite, and so it is not done, whether it came to its end or not
    CARD_TAKEN = "card_taken"  # others came to the card, and it was not waited for, or in vain
    FAILED = "failed"  # the full run
    OTHER_TRAINING = "other_training"  # the full run came to its end, and made other optimizer steps than asked: it is not done
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"  # autofit itself could not go on


_OF_TRIALS = (Kind.CRASHED, Kind.STALLED, Kind.VACUOUS, Kind.DIVERGED, Kind.CARD_TAKEN)
"""Verdicts that end a launch, with a status of the same name."""
_EXIT_CODES = {
    Status.DONE: ExitCode.DONE,
    Status.NO_RUNG_FITS: ExitCode.NO_RUNG_FITS,
    Status.FAILED: ExitCode.RUN_FAILED,
    Status.OTHER_TRAINING: ExitCode.RUN_FAILED,
    Status.INTERRUPTED: ExitCode.INTERRUPTED,
    **{Status(kind.value): ExitCode.TRIAL_CRASHED for kind in _OF_TRIALS},
}


def exit_code_of(status: Status, *, ran: bool = False) -> ExitCode:
    """The exit status of a launch that ended so. ``ran``: it had come to its full run."""
    if ran and status is Status.DIVERGED:
        return ExitCode.RUN_FAILED
    return _EXIT_CODES.get(status, ExitCode.BAD_INPUT)


def status_of(kind: Kind) -> Status:
    """The status of a launch that a trial's verdict has ended; NO_RUNG_FITS for one that a lower rung may cure."""
    return Status(kind.value) if kind in _OF_TRIALS else Status.NO_RUNG_FITS


MOST_REMARKS = 20
"""Deviations of an attempt that are written down, the last ones."""
NO_RUNG = {"rung": None, "rung_index": None, "accumulation": None}


class Screen:
    """Shows a launch as it goes on; this one shows nothing."""

    def say(self, words: str, style: str = "yellow") -> None:
        """A line, in a style of rich's."""

    def planned(self, job: Job) -> None:
        """A rung will be looked for on the launch's ladder."""

    def trial_ended(self, trial: Trial) -> None: ...

    def proven(self, rung: Rung, same: SameTraining, refused: str) -> None:
        """A rung that fits was compared with the asked training."""

    def fitted(self, fit: Fit) -> None:
        """The search is over, whether a rung fits or none does."""

    def launched(self, command: str) -> None:
        """The full run is launched, by this native command."""

    def finished(self, fit: Fit) -> None:
        """The launch is over, whatever ended it."""


@dataclass(kw_only=True, slots=True)
class Fit:
    """One launch as far as it has come."""

    job: Job
    trials: list[Trial] = field(default_factory=list)
    chosen: Trial | None = None
    command: Command | None = None
    fit_only: bool = False
    """True: only trials were asked for (``autofit fit``, ``run --fit-only``): no full run is ever launched, not on ``resume`` either."""
    same: SameTraining | None = None
    """The certificate of the chosen rung; of the last one that was looked at where none is chosen. None before that."""
    sames: dict[int, SameTraining] = field(default_factory=dict)
    """The certificates of all rungs that were looked at, by rung index."""
    steps: course.RunSteps | None = None
    """A full run's optimizer steps against those due, once it has come to its end and both are known."""
    refused: str = ""
    """The reason why rungs with more accumulation than asked were ruled out, after trials of theirs had fitted."""
    ladder: Sequence[LadderRecord] = ()
    """The ladder's rungs as the search has left them."""
    could_fit: Sequence[Could] = ()
    """Other trainings that might fit, if no rung does."""
    status: Status = Status.TRYING
    misread: Misread | None = None
    """The difference, if a trial of the command showed another batch than was read of it."""
    unturned: str = ""
    """The reason why the micro-batch isn't turned, if the trial of rung 0 showed one."""
    reuse: Reuse = field(default_factory=Reuse)
    """The finding among the kept fits; empty before they were looked at."""
    kept: KeptRecord = field(default_factory=KeptRecord)
    """The record's section on kept fits; a run that fails disproves the fit by the digest in it."""
    trial_seconds: float = 0.0
    attempts: list[AttemptRecord] = field(default_factory=list)
    """Launches of the full run: one, and one more each time that it had to be started again."""
    forgiven: int = 0
    """Number of first attempts that don't count against ``recover.restarts``: a person has said ``autofit resume`` since."""
    began: float = field(default_factory=time.time)
    trying: Rung | None = None
    """The rung whose trial is under way."""
    waits_for: str = ""
    """The holder of the card that the launch waits for just now."""
    outcome: RunRecord | None = None
    """The end of the full run's last attempt."""
    results: dict[str, Any] = field(default_factory=dict)
    """The results of the full run."""

    screen: Screen = field(default_factory=Screen)

    def told(self) -> Screen:
        """Writes the record, and returns the screen: what is shown has been written down."""
        self.write()
        return self.screen

    def deviated(self, words: str, style: str = "yellow") -> None:
        """Takes in how the run deviates from what was asked, as the end of a sentence that begins with "the run"."""
        self.note(remarks=[*self.attempts[-1].remarks, words][-MOST_REMARKS:])
        self.told().say(f"autofit: the run {words}", style)

    def note(self, **known: Any) -> AttemptRecord:
        """Notes what is known of the last attempt now; returns it."""
        self.attempts[-1] = self.attempts[-1].model_copy(update=known)
        return self.attempts[-1]

    @property
    def exit_code(self) -> ExitCode:
        return exit_code_of(self.status, ran=bool(self.attempts))

    @property
    def rung(self) -> Rung | None:
        """The rung of the full run, now or at its end; before it the rung that fits."""
        if self.attempts:
            return self.job.ladder.rungs[self.attempts[-1].rung_index]
        return self.chosen.rung if self.chosen is not None else None

    def write(self) -> None:
        """Puts the record into the run folder. A full disk ends nothing: what was there stays."""
        with suppress(OSError):
            self.job.folder.replace_json(self.job.folder.record, self.as_record())

    @property
    def memory(self) -> MemoryRecord | None:
        """The run's peak beside its trial's, once both are known."""
        if self.outcome is None or self.chosen is None:
            return None
        budget = self.job.budget
        return MemoryRecord(
            trial_peak_bytes=self.chosen.verdict.peak_bytes,
            run_peak_bytes=self.outcome.peak_bytes,
            cap_bytes=budget.cap_bytes,
            budget_bytes=budget.budget_bytes,
        )

    @property
    def due(self) -> course.Due | None:
        """Optimizer steps of the asked training; None where they aren't known, or the run's rung gives some up. Where the asked rung wasn't
        tried, one that was proven to make as many tells them."""
        rung = self.rung
        if rung is None or rung.effective_batch != self.job.ladder.effective_batch:
            return None
        steps = self.certificate(rung).steps
        asked = self.trial_of(0) or (self.trial_of(rung.index) if steps == PROVEN else None)
        if asked is None or steps.startswith("differs"):
            return None
        return course.due(asked.report, asked.rung, self.job.adapter.asked.length)

    def trial_of(self, rung_index: int) -> Trial | None:
        return next((one for one in reversed(self.trials) if one.rung.index == rung_index), None)

    def certificate(self, rung: Rung) -> SameTraining:
        """Returns the certificate of a rung, as far as it was compared with the asked training. Rung 0 is what was asked."""
        if rung.index in self.sames:
            return self.sames[rung.index]
        if not rung.index:
            return SameTraining()
        tried = self.trial_of(rung.index)
        if tried is None:
            return unproven("this rung was not compared with the asked one")
        return unproven("another rung was taken" if tried.verdict.fits else f"its trial ended otherwise ({tried.verdict.kind.value})")

    def as_record(self) -> dict[str, Any]:
        """The record, which is also what ``--json`` prints."""
        rung, job, chosen = self.rung, self.job, self.chosen
        same = self.same.as_record() if self.same is not None else None
        return Record(
            format=FORMAT, status=self._standing.value, fit_only=self.fit_only, recipe=job.recipe.name, began=self.began,
            **(rung.told if rung else NO_RUNG), effective_batch=chosen.effective_batch if chosen else None,
            effective_batch_seen=chosen.batch_seen if chosen else False, effective_batch_asked=job.ladder.effective_batch,
            given_up={name: {"asked": asked, "used": used} for name, (asked, used) in job.ladder.given_up(rung).items()} if rung else None,
            ladder=self.ladder,
            trials=[one.record(same_training=self.certificate(one.rung).as_record()) for one in self.trials],
            attempts=[one.model_copy(update={"same_training": self._same_record(one)}) for one in self.attempts],
            same_training=SameTrainingRecord(**same, **({"refused": self.refused} if self.refused else {})) if same else None,
            chosen_rung_index=chosen.rung.index if chosen else None, cwd=os.getcwd(), run_dir=str(job.folder.path),
            command=self.command.shell() if self.command else None, device=DeviceRecord(**plain(job.budget)),
            environment=self._environment(), trial_seconds=self.trial_seconds, kept=self.kept, **self._where_it_is_so(),
        ).written()  # fmt: skip

    @property
    def _standing(self) -> Status:
        """The status for the record: a launch between its trials and its full run isn't done."""
        return Status.TRYING if self.status is Status.DONE and not (self.fit_only or self.attempts) else self.status

    def _environment(self) -> dict[str, str]:
        """Returns versions as the chosen trial's process told them; a kept fit holds for its trial's versions alone."""
        tried = self.chosen or next(reversed(self.trials), None)
        versions = tried.report.facts.get(VERSIONS, {}) if tried is not None else {}
        driver = self.job.budget.driver
        return {**versions, **({"driver": driver} if driver else {})}

    def _same_record(self, one: AttemptRecord) -> SameTrainingRecord:
        return SameTrainingRecord(**self.certificate(self.job.ladder.rungs[one.rung_index]).as_record())

    def _where_it_is_so(self) -> dict[str, Any]:
        """Returns the fields that only some records have."""
        found: dict[str, Any] = {"waits_for": self.waits_for} if self.waits_for else {}
        if (rung := self.trying) is not None:
            found["trying"] = RungRecord(**rung.told, effective_batch=rung.effective_batch)
        if self.misread is not None:
            found["misread"] = self.misread.as_record()
        if self.could_fit:
            found["could_fit"] = [one.as_record() for one in self.could_fit]
        if self.outcome is not None:
            found["run"] = self.outcome
            found |= {"steps": self.steps.as_record()} if self.steps is not None else {}
            found |= {"memory": self.memory, "results": plain(self.results)}
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """The memory that the cheapest of the failing trials would have needed."""

    trial: Trial
    needed_bytes: int
    measured: bool
    """True: its peak was measured. False: it was refused an allocation and needs at least that much."""


def least_need(trials: Sequence[Trial]) -> Need | None:
    """The failing trial that asked for least memory, or None where none of them failed for want of it.

    One that stayed below its cap (its allocator had emptied its cache, or the failing allocation's size isn't known) doesn't show how much
    it needs, and comes last.
    """
    needs = [need for trial in trials if (need := _need(trial)) is not None]
    return min(needs, key=lambda need: (need.needed_bytes <= need.trial.report.cap_bytes, need.needed_bytes), default=None)


def _need(tried: Trial) -> Need | None:
    verdict = tried.verdict
    if verdict.kind is not Kind.OUT_OF_MEMORY or verdict.source in OF_MACHINE or not verdict.peak_bytes:
        return None
    measured = verdict.source == "measured" and verdict.peak_bytes > tried.report.cap_bytes
    return Need(trial=tried, needed_bytes=verdict.peak_bytes + (0 if measured else verdict.asked_bytes or 0), measured=measured)


REPORTED = 1.02
"""A run above its trial by more than this is told, and a report asked for."""


def above_trial(memory: MemoryRecord) -> bool:
    """Tells whether the run needed noticeably more than its trial had shown, and more than identical processes may differ by."""
    apart = memory.run_peak_bytes - memory.trial_peak_bytes
    return memory.ratio is not None and memory.ratio > REPORTED and apart > headroom.LEAST_BYTES
