"""A launch: finds the rung that fits, proves that it is the asked training, and runs the full training there; or takes one up again."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from autofit_launcher.adapter import build
from autofit_launcher.adapter.commands import Checkpoint, Command
from autofit_launcher.adapter.log_line import ANOTHER_TRAINING
from autofit_launcher.adapter.registry import load_adapter
from autofit_launcher.common import files, procfs
from autofit_launcher.common.activity import doing
from autofit_launcher.common.files import plain
from autofit_launcher.common.memory_failures import OF_MACHINE
from autofit_launcher.common.orders import PLAIN
from autofit_launcher.common.report import VERSIONS, WORLD_SIZE, Phase
from autofit_launcher.common.sizes import format_duration
from autofit_launcher.config.recipe import Draft, as_yaml
from autofit_launcher.engine import reuse
from autofit_launcher.engine.prepare import Resumable, budget_in_turn, disk_faults, ladder_of, prepare, turn_of
from autofit_launcher.engine.reuse import Reuse
from autofit_launcher.errors import BadInput, ExitCode, Fault, Interrupted
from autofit_launcher.full_run import run
from autofit_launcher.full_run.cause import Ended
from autofit_launcher.full_run.recover import MOST_WAITS, History, decide
from autofit_launcher.history import kept_fits, owner, records
from autofit_launcher.history.records import AttemptRecord, CouldRecord, LadderRecord, MoveRecord, Record, RungRecord, RunRecord, Status
from autofit_launcher.ladder import same_training, search
from autofit_launcher.ladder.rungs import AS_ASKED, MICRO_BATCH, Rung
from autofit_launcher.ladder.same_training import COUNTED, GIVEN_UP, PROVEN, SameTraining, as_asked, unproven, with_steps
from autofit_launcher.ladder.search import Tried, estimates
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.machine import devices, host, process
from autofit_launcher.machine.devices import Budget
from autofit_launcher.machine.process import Shows
from autofit_launcher.paths import tell_launched
from autofit_launcher.trial import proof, rung_zero, trial
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.proof import Proof
from autofit_launcher.trial.rung_zero import Misread
from autofit_launcher.trial.trial import Trial, as_tried

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


MOST_REMARKS = 20
"""Deviations of an attempt that are written down, the last ones; and whatever makes it another training, which counts at its end."""
NO_RUNG = {"rung": None, "rung_index": None, "accumulation": None}


class Could(NamedTuple):
    """Another training that a person could accept: the flag and the key that do so, and the first rung that is estimated to fit then."""

    flag: str
    key: str
    rung: Rung | None


class Screen:
    """Shows a launch as it goes on; this one shows nothing."""

    def say(self, words: str, style: str = "yellow") -> None:
        """A line, in a style of rich's."""

    def planned(self, job: Job) -> None:
        """A rung will be looked for on the launch's ladder."""

    def trial_ended(self, trial: Trial) -> None: ...

    def proven(self, rung: Rung, same: SameTraining, refused: str) -> None:
        """A rung that fits was compared with the asked training."""

    def fitted(self, fit: Launch) -> None:
        """The search is over, whether a rung fits or none does."""

    def launched(self, command: str) -> None:
        """The full run is launched, by this native command."""

    def finished(self, fit: Launch) -> None:
        """The launch is over, whatever ended it."""


QUIET = Screen()


@dataclass(kw_only=True, slots=True)
class Launch:
    """One launch as far as it has come."""

    job: Job
    trials: list[Trial] = field(default_factory=list)
    chosen: Trial | None = None
    command: Command | None = None
    same: SameTraining | None = None
    """The certificate of the chosen rung; of the last one that was looked at where none is chosen. None before that."""
    sames: dict[int, SameTraining] = field(default_factory=dict)
    """The certificates of all rungs that were looked at, by rung index."""
    steps: same_training.RunSteps | None = None
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

    screen: Screen = QUIET
    show: tuple[Shows, Shows] | None = None
    """The streams that show the full run's output; None: only trials were asked for (``autofit fit``, ``run --fit-only``), and no full run
    is ever launched, not on ``resume`` either."""
    ahead: run.Ahead | None = None
    """The full run of a rung that is being tried or proven, begun ahead; it waits."""
    alone: bool = False
    """True: a trial has crashed, and no run is begun ahead any more."""

    def told(self) -> Screen:
        """Writes the record, and returns the screen: what is shown has been written down."""
        self.write()
        return self.screen

    def deviated(self, words: str, style: str = "yellow") -> None:
        """Takes in how the run deviates from what was asked, as the end of a sentence that begins with "the run"."""
        said = [*self.attempts[-1].remarks, words]
        undoes = [one for one in said[:-MOST_REMARKS] if one.startswith(ANOTHER_TRAINING)]
        self.note(remarks=[*undoes, *said[-MOST_REMARKS:]])
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
    def memory(self) -> records.MemoryRecord | None:
        """The run's peak beside that of its rung's trial, if it was tried."""
        if self.outcome is None or self.rung is None:
            return None
        budget, tried = self.job.budget, self.trial_of(self.rung.index)
        peaks = {"trial_peak_bytes": tried.verdict.peak_bytes if tried else 0, "run_peak_bytes": self.outcome.peak_bytes}
        return records.MemoryRecord(**peaks, cap_bytes=budget.cap_bytes, budget_bytes=budget.budget_bytes)

    def due(self, rung: Rung | None = None) -> same_training.Due | None:
        """Returns the optimizer steps of the asked training; None where they aren't known, or the run's rung, or this one, gives some up.
        Where the asked rung wasn't tried, one that was proven to make as many tells them."""
        if (rung := rung or self.rung) is None or rung.effective_batch != self.job.ladder.effective_batch:
            return None
        steps = self.certificate(rung).steps
        asked = self.trial_of(0) or (self.trial_of(rung.index) if steps == PROVEN else None)
        if asked is None or steps.startswith("differs"):
            return None
        return same_training.due(asked.report, asked.rung, self.job.adapter.asked.length)

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
        tried = self.chosen or next(reversed(self.trials), None)  # a kept fit holds for its trial's versions alone
        versions = tried.report.facts.get(VERSIONS, {}) if tried is not None else {}
        driver = {"driver": self.job.budget.driver} if self.job.budget.driver else {}
        rung, job, chosen, rungs = self.rung, self.job, self.chosen, self.job.ladder.rungs
        between = self.status is Status.DONE and not (self.show is None or self.attempts)  # its trials and its full run: it isn't done
        same = records.RunCertificate(**{**asdict(self.same), "refused": self.refused}) if self.same else None
        known = {
            "waits_for": self.waits_for, "run": self.outcome, "memory": self.memory,
            "could_fit": [CouldRecord(flag=flag, key=key, rung=dict(at.values) if at else None) for flag, key, at in self.could_fit],
            "trying": RungRecord(**self.trying.told, effective_batch=self.trying.effective_batch) if self.trying is not None else None,
            "misread": self.misread.as_record() if self.misread is not None else None,
            "steps": self.steps,
            "results": plain(self.results) if self.outcome is not None else None,
        }  # fmt: skip
        return Record(
            format=records.FORMAT, status=(Status.TRYING if between else self.status).value, fit_only=self.show is None, began=self.began,
            recipe=job.recipe.name, **(rung.told if rung else NO_RUNG), effective_batch=chosen.effective_batch if chosen else None,
            effective_batch_seen=chosen.batch_seen if chosen else False, effective_batch_asked=job.ladder.effective_batch,
            given_up={name: {"asked": asked, "used": used} for name, (asked, used) in job.ladder.given_up(rung).items()} if rung else None,
            ladder=self.ladder, trials=[one.record(same_training=self.certificate(one.rung)) for one in self.trials],
            attempts=[one.model_copy(update={"same_training": self.certificate(rungs[one.rung_index])}) for one in self.attempts],
            same_training=same, chosen_rung_index=chosen.rung.index if chosen else None, cwd=os.getcwd(), run_dir=str(job.folder.path),
            command=self.command.shell() if self.command else None, device=records.DeviceRecord(**plain(job.budget)),
            environment={**versions, **driver}, trial_seconds=self.trial_seconds, kept=self.reuse.record,
            **{name: value for name, value in known.items() if value not in (None, "", [])},
        ).written()  # fmt: skip


class Need(NamedTuple):
    """The memory that the cheapest of the failing trials would have needed."""

    trial: Trial
    needed_bytes: int
    measured: bool
    """False: it needs at least that much. It was refused an allocation, or ended before its validation."""


def least_need(trials: Sequence[Trial]) -> Need | None:
    """The failing trial that asked for least memory, or None where none of them failed for want of it. One that stayed below its cap (it
    was refused an allocation of a size that isn't known, say) doesn't show how much it needs, and comes last."""
    needs = [need for trial in trials if (need := _need(trial)) is not None]
    return min(needs, key=lambda need: (need.needed_bytes <= need.trial.report.cap_bytes, need.needed_bytes), default=None)


def _need(tried: Trial) -> Need | None:
    verdict = tried.verdict
    if verdict.kind is not Kind.OUT_OF_MEMORY or verdict.source in OF_MACHINE or not verdict.peak_bytes:
        return None
    measured = verdict.source == "measured" and verdict.peak_bytes > tried.report.cap_bytes
    needed = verdict.peak_bytes + (0 if measured else verdict.asked_bytes or 0)
    return Need(trial=tried, needed_bytes=needed, measured=measured and verdict.phase not in (Phase.SETUP, Phase.TRAIN))


REPORTED = 1.02
"""A run above its trial by more than this is told, and a report asked for."""


def above_trial(memory: records.MemoryRecord) -> bool:
    """Tells whether the run needed noticeably more than its trial had shown, and more than identical processes may differ by."""
    apart = memory.run_peak_bytes - memory.trial_peak_bytes
    return memory.ratio is not None and memory.ratio > REPORTED and apart > devices.LEAST_BYTES


# ----------------------------------------------------------------------------------------------------------------------
# A launch, from its first trial to its end


OWN_FOLDER = ("trainer.args.save_dir", "trainer.args.output_dir")
"""Keys of folders that must be empty when a run begins, and hold the run's own files when it goes on."""


def begin(job: Job, screen: Screen = QUIET, *, show: tuple[Shows, Shows] | None = None) -> Launch:
    """Finds the rung that fits, then runs the full training there, over several attempts if need be. ``show``: where its output is shown;
    None: there is no full run."""
    launch = Launch(job=job, screen=screen, show=show)
    with job.turn, owner.owning(job.folder.path):
        _carry_out(launch)
    return launch


def go_on(begun: Resumable, screen: Screen = QUIET, *, show: tuple[Shows, Shows]) -> Launch:
    """Resumes a launch: its trials if no rung had been found yet, then its full run, unless only trials were asked for."""
    os.chdir(begun.record.cwd)
    with owner.owning(begun.folder.path), ExitStack() as until_the_end:
        with doing("looking at the recipe, its data, the device and what the run has left"):
            launch = _as_it_was(begun, screen, until_the_end, show=None if begun.record.fit_only else show)
        tell_launched(begun.folder.path)
        launch.reuse = reuse.again(launch.job, begun.record.kept, relies=launch.chosen is not None)
        if newer := ", ".join(launch.job.adapter.edited(since=begun.folder.launched())):
            screen.say(f"edited since the launch: {newer}. What runs is that, at the launch's rung")
        _carry_out(launch)
    return launch


def _carry_out(launch: Launch) -> None:
    """Carries the launch out and keeps its record up to date; writes the end into it, whatever ends the launch."""
    launch.write()
    try:
        if launch.chosen is None:
            walk(launch)
        if launch.chosen is not None and launch.show is not None:
            see_through(launch)
    except (KeyboardInterrupt, Interrupted) as stopped:
        launch.status = Status.INTERRUPTED
        signalled = stopped if isinstance(stopped, Interrupted) else Interrupted("SIGINT")
        signalled.run_dir = str(launch.job.folder.path)
        raise signalled from None
    except BaseException:
        launch.status = Status.STOPPED
        raise
    finally:
        _end_ahead(launch)
        launch.job.forks.end()
        launch.job.folder.forget_cache()
        if launch.status is not Status.OTHER_TRAINING:
            reuse.ended(launch.reuse)
        launch.waits_for = ""
        launch.told().finished(launch)


# ----------------------------------------------------------------------------------------------------------------------
# The rung


def walk(launch: Launch) -> None:
    """Takes a kept fit of the same launch, or makes trials until a rung fits or nothing is left to try. ``launch`` gets what was found."""
    began = time.monotonic()
    launch.told().planned(launch.job)
    if launch.trials or not _as_kept(launch):
        _search(launch, began)
    launch.ladder = list(_ladder(launch))
    launch.told().fitted(launch)


MOST_RUNGS = 60
"""Rungs of a ladder that are written down: the best, which are tried first."""


def _ladder(launch: Launch) -> Iterator[LadderRecord]:
    """The rungs, best first, and which failed trial rules each out, where one does."""
    ladder, history = launch.job.ladder, [as_tried(one, launch.job.budget.cap_bytes) for one in launch.trials]
    tried = {one.rung.index for one in launch.trials}
    for rung in ladder.rungs[:MOST_RUNGS]:
        by = None if rung.index in tried else search.dominated_by(ladder, rung, history)
        yield LadderRecord(**rung.told, **({"ruled_out_by": by.rung.index} if by is not None else {}))


def _search(launch: Launch, began: float) -> None:
    """Makes the trials. Where the first of them shows another batch than was read, or one that can't be turned, the ladder is made anew."""
    made = RungSearch(launch)
    move, run_as = made.run()
    while made.unturned:
        if _made_anew(launch, made):
            launch.told().planned(launch.job)
            if _as_kept(launch):
                return
        made = RungSearch(launch)
        move, run_as = made.run()
    _concluded(launch, move, run_as)
    launch.trial_seconds += time.monotonic() - began
    if launch.chosen is None:
        return
    if launch.same is not None and launch.reuse.depends_on is not None:
        with doing("keeping the fit"):
            _known(launch, reuse.proven(launch.job, launch.reuse, launch.trials, launch.chosen, launch.same))
    _take(launch, run_as)


def _concluded(launch: Launch, move: search.Move, run_as: Job) -> None:
    """Writes the search's outcome into ``launch``; if no rung fits, also what might."""
    launch.status = Status.NO_RUNG_FITS
    if isinstance(move, search.Chosen):
        launch.chosen = launch.trial_of(move.rung.index)
        launch.command = run.native_command(run_as, move.rung)
        launch.status = Status.DONE
    elif (isinstance(move, search.Try) or move.why == "not_memory") and launch.trials[-1].verdict.kind in _OF_TRIALS:
        launch.status = Status(launch.trials[-1].verdict.kind.value)
    if launch.status is Status.NO_RUNG_FITS:
        launch.could_fit = tuple(could_fit(launch))


def _made_anew(launch: Launch, search: RungSearch) -> bool:
    """Makes the ladder anew after a trial. Returns whether it is made of what ran; the trials made so far are of that ladder. Else the
    micro-batch stays as the command has it, and so does its trial, if that was the command to the letter."""
    job, wrong = launch.job, search.misread
    adapter, believed = rung_zero.anew(job.adapter, wrong)
    ladder = build.ladder_of(adapter)
    launch.misread = replace(wrong, believed=believed) if wrong is not None and wrong.read else launch.misread
    launch.unturned = "" if believed else search.unturned
    if believed:
        launch.trials[:] = rung_zero.as_believed(launch.trials, ladder)
    elif launch.trials[-1].told_less:
        launch.trials.clear()
    then = "What ran is what was asked: the ladder is made of that" if believed else "So its micro-batch isn't turned"
    launch.told().say(f"{search.unturned}. {then}")
    _take(launch, replace(job, adapter=adapter, ladder=ladder))
    return believed


def _take(launch: Launch, job: Job) -> None:
    """The launch continues with this job, and ``autofit resume`` will start from its recipe."""
    if job is not launch.job:
        if not job.folder.asked.exists():
            job.folder.replace(job.folder.asked, as_yaml(launch.job.recipe))
        job.folder.replace(job.folder.recipe, as_yaml(job.recipe))
        launch.job = job


def _as_kept(launch: Launch) -> bool:
    """Takes over the trials of an earlier launch if nothing that they depend on has changed. Returns whether it did."""
    job = launch.job
    with doing("looking whether a kept fit holds: the data, the models, the packages"):
        found = reuse.look_up(job)
    if found.fit is not None:
        launch.trials, launch.same = list(found.trials), found.fit.same
        launch.sames[found.fit.rung_index] = launch.same
        _take(launch, proof.with_cure(job, launch.same.cure))
        launch.chosen = launch.trial_of(found.fit.rung_index)
        assert launch.chosen is not None
        launch.command = run.native_command(launch.job, launch.chosen.rung)
        launch.status = Status.DONE
    _known(launch, found)
    return launch.chosen is not None


def _known(launch: Launch, found: reuse.Reuse) -> None:
    """Writes what is known of kept fits into the record, and tells it once: that one is used, or why none is used or kept."""
    before, launch.reuse = launch.reuse.record.why, found
    if found.record.used:
        no_trials = "nothing that it depends on has changed, so no trials are made (trial.fresh=true makes them)"
        launch.told().say(f"kept fit of {kept_fits.day(found.record.made or '')}: {no_trials}", "green")
    elif found.depends_on is not None and found.record.why not in ("", before):  # else nobody expects one
        launch.told().say(found.record.why, "dim")


def try_one(draft: Draft, screen: Screen) -> tuple[Trial, dict[str, Any]]:
    """Tries only the rung that the recipe names (``rung``). Returns the trial and the final record."""
    last = len(ladder_of(draft).rungs) - 1
    wanted = draft.recipe.rung if draft.recipe is not None else None
    if wanted is None or wanted > last:
        found = "no rung is named" if wanted is None else f"there is no rung {wanted}"
        cure = f"Give one from 0 to {last}; `autofit ladder` numbers them."
        raise BadInput([Fault(key="rung", found=found, cure=cure, where="command line")])
    job = prepare(draft, screen.say)
    screen.planned(job)
    with job.turn, owner.owning(job.folder.path):
        tried = make_trial(Launch(job=job, screen=screen), job.ladder.rungs[wanted])
        if (wrong := misread(job, tried)) is not None:
            screen.say(f"{wrong.words(job.adapter.asked.read_at)}. So its micro-batch isn't turned")
    job.forks.end()
    job.folder.forget_cache()
    record = {"status": "done", **tried.record().written(), "run_dir": str(job.folder.path), "report": tried.report}
    job.folder.replace_json(job.folder.record, record)
    return tried, record


# ----------------------------------------------------------------------------------------------------------------------
# A launch as its folder has it


def as_tried_in(budget: Budget, record: Record) -> Budget:
    """The card's budget; if others have left less since than a trial that fits had taken, that of the trial: the run waits for it."""
    had, peaks = record.device, [one.peak_bytes for one in record.trials if one.verdict == Kind.FITS]
    if had is None or budget.ranks or (budget.kind, budget.uuid) != ("cuda", had.uuid) or max(peaks, default=0) <= budget.cap_bytes:
        return budget
    return replace(budget, **{name: getattr(had, name) for name in ("budget_bytes", "cap_bytes", "ceiling_bytes")})


def _as_it_was(begun: Resumable, screen: Screen, until_the_end: ExitStack, *, show: tuple[Shows, Shows] | None) -> Launch:
    """The launch as its folder has it; changes nothing. Raises BadInput if it can't be resumed here and now."""
    recipe, record = begun.recipe, begun.record
    adapter = load_adapter(recipe.trainer.adapter)(recipe)
    ladder = build.ladder_of(adapter)
    made, (trials, sames) = begun.attempts(ladder), begun.trials(ladder)
    full = disk_faults(Path(recipe.run.root)) + [fault for fault in adapter.check() if fault.key not in OWN_FOLDER]
    if full:
        raise BadInput(begun.draft.provenance.placed(full))
    with doing("waiting for the processes of the run to end"):
        left = process.wait_for_leftovers(begun.folder.path)
    if left:
        found = f"processes of it are still there: {', '.join(map(str, left))}"
        raise BadInput([Fault(key="", where=str(begun.folder.path), found=found, cure="End them, or wait until they have ended.")])
    turn = until_the_end.enter_context(turn_of(recipe, screen.say))
    budget = budget_in_turn(recipe, waited=turn.waited)
    if not any(word.startswith("device.") for word in begun.draft.provenance.overrides):  # else a person says what it is to have
        budget = as_tried_in(budget, record)
    job = Job(adapter=adapter, ladder=ladder, budget=budget, folder=begun.folder, turn=turn, say=screen.say)
    launch = Launch(job=job, screen=screen, show=show, trials=trials, sames=sames, attempts=made, forgiven=len(made))
    launch.began, launch.ladder, launch.trial_seconds = record.began or launch.began, record.ladder, record.trial_seconds
    if record.misread is not None and record.misread.believed:
        launch.misread = Misread(read=record.misread.read, ran=record.misread.ran, believed=True)
    if record.same_training is not None:
        launch.same, launch.refused = record.same_training, record.same_training.refused
    if record.chosen_rung_index is not None:
        launch.chosen = next(one for one in reversed(launch.trials) if one.rung.index == record.chosen_rung_index)
        launch.command = run.native_command(job, launch.chosen.rung)
    return launch


# ----------------------------------------------------------------------------------------------------------------------
# The search


OF_MEMORY = (Kind.OUT_OF_MEMORY, Kind.SPILLED, Kind.CARD_TAKEN)
"""Failures of a trial with its cure after which the search keeps that cure."""


class RungSearch:
    """The search on one ladder: tries rungs until one fits and is the asked training, or nothing is left to try."""

    def __init__(self, launch: Launch) -> None:
        self._launch, self._job = launch, launch.job
        rungs = self._job.ladder.rungs  # a full run of this same launch that ran out of memory at one counts, whatever its trial said
        disproved = [(rungs[one.rung_index], one.why) for one in launch.reuse.failures if one.rung_index < len(rungs)]
        self._history = [
            *(Tried(rung=rung, verdict=Verdict(kind=Kind.OUT_OF_MEMORY, phase=Phase.FINISH, why=why)) for rung, why in disproved),
            *(as_tried(one, self._job.budget.cap_bytes) for one in launch.trials),
        ]
        self.misread: Misread | None = None
        self.unturned = ""
        """The reason, if the trial of rung 0 disproves what was read of the command, or its micro-batch can't be turned as planned."""

    def run(self) -> tuple[search.Move, Job]:
        """Returns the move that ended the search, and the job with what makes its chosen rung the asked training.

        The move is a ``Try`` if the last trial showed that the ladder is to be made anew (``unturned``), or that others hold the card.
        """
        while isinstance(move := self._try_until_one_fits(), search.Chosen):
            found = _prove(self._launch, move.rung, self._job)
            if found.refused:
                self._rule_out(found.refused)
            elif found.job is None or self._fits_with_its_cure(found, move.rung):
                # one that accumulates no more than asked needs nothing
                return move, found.job or (self._job if proof.needed(self._job, move.rung) else self._launch.job)
        return move, self._job

    def _rule_out(self, why: str) -> None:
        """Takes each rung that fits but isn't the asked training for a failure that rules out all with more accumulation than asked."""
        for at, one in enumerate(self._history):
            if self._fits_accumulating(one):
                self._history[at] = replace(one, verdict=replace(one.verdict, kind=Kind.ALTERED, source="accumulation", why=why))

    def _fits_accumulating(self, tried: Tried) -> bool:
        """Tells whether a rung fits that accumulates more than asked."""
        return tried.verdict.fits and proof.needed(self._job, tried.rung)

    def _fits_with_its_cure(self, found: Proof, rung: Rung) -> bool:
        """Tries the rung again with what makes it the asked training, which may need more memory.

        If it needs too much, the search goes on with the cure: what fitted without it says nothing any more of rungs that accumulate.
        """
        assert found.job is not None
        tried = _with_its_cure(self._launch, rung, found.job)
        if tried.verdict.kind in OF_MEMORY:
            self._job = found.job
            self._history = [one for one in self._history if not self._fits_accumulating(one)]
            self._history.append(as_tried(tried, self._job.budget.cap_bytes))
        elif not tried.verdict.fits:
            self._rule_out(self._launch.refused)
        return tried.verdict.fits

    def _try_until_one_fits(self) -> search.Move:
        policy, ladder = self._job.recipe.ladder.search, self._job.ladder
        while True:
            move = search.next_move(ladder, self._history, policy=policy, asked_first=self._job.adapter.general)
            if not isinstance(move, search.Try):
                return move
            tried = make_trial(self._launch, move.rung, job=self._job)
            self._history.append(as_tried(tried, self._job.budget.cap_bytes))
            if self._is_unturned(tried) or tried.verdict.kind is Kind.CARD_TAKEN:
                return move

    def _is_unturned(self, tried: Trial) -> bool:
        """Tells whether the trials show another ladder for a person's command, or a micro-batch that can't be turned as planned."""
        job = self._job
        if not job.adapter.general or self._launch.unturned:
            return False
        told = rung_zero.showed(self._launch.trials, unsaid=job.adapter.asked.unsaid)
        if told is not None and job.adapter.believing(told.ran, told.arrived) is not None:
            read_at = job.adapter.asked.read_at
            self.misread = replace(told, read={name: value for name, value in told.read.items() if name in (*read_at, WORLD_SIZE)})
            self.unturned = self.misread.words(read_at)
            return True
        if tried.rung.index or MICRO_BATCH not in job.recipe.ladder.order:
            return False
        self.misread = misread(job, tried)
        drawn = rung_zero.drawn(tried) if job.recipe.ladder.keep_batch else ""
        self.unturned = self.misread.words(job.adapter.asked.read_at) if self.misread is not None else drawn
        return bool(self.unturned)


def _with_its_cure(launch: Launch, rung: Rung, job: Job) -> Trial:
    """Tries a rung with what makes it the asked training. Where that fails otherwise than for memory, no rung that accumulates is one."""
    tried = make_trial(launch, rung, job=job, why="with what makes it the asked training")
    if not tried.verdict.fits and tried.verdict.kind not in OF_MEMORY:
        launch.refused = f"it is the asked training only with what puts it right from outside, and then: {tried.verdict.why}"
    return tried


def _prove(launch: Launch, rung: Rung, job: Job) -> Proof:
    """Proves whether the rung is the asked training and tells it. Runs twins if it accumulates more or checkpoints from outside.

    ``job``: the launch, with the cure that an earlier proof has found, if there was one.
    """
    twins = proof.needed(job, rung)
    if not twins:
        found = Proof(same=as_asked(job.ladder, rung))
    else:
        with doing(f"running the same rows in two layouts: is an update at rung {rung.index} the asked one?"):
            found = proof.prove(job, rung)
    same = found.same if found.refused else proof.of_exact(found.job or job, rung, found.same)
    if same.gradient == PROVEN and (less := same_training.given_up(job.ladder, rung)):
        same = replace(same, gradient=f"{GIVEN_UP}: {less}")
    if twins and job is not launch.job and (before := launch.same) is not None:
        notes = [*before.notes, *(note for note in same.notes if note not in before.notes)]
        same = replace(same, cure={**before.cure, **same.cure}, notes=tuple(notes))
    launch.sames[rung.index] = same
    if same.counted and launch.due(rung) is None:
        same = launch.sames[rung.index] = replace(same, steps=same.steps.removesuffix(COUNTED))
    launch.same, launch.refused = same, found.refused or launch.refused
    launch.told().proven(rung, same, found.refused)
    return replace(found, same=same)


# ----------------------------------------------------------------------------------------------------------------------
# Trials


def make_trial(launch: Launch, rung: Rung, *, job: Job | None = None, why: str = "") -> Trial:
    """Tries a rung and adds the trial to the launch's; once more where others held the card and have left it.

    ``job``: the launch with what puts its update right; ``why``: the reason for choosing this rung, for the screen.
    """
    job, made = job or launch.job, launch.trials
    if why:
        launch.screen.say(f"rung {rung.index} next: {why}", "dim")
    while True:
        launch.trying = rung
        _end_ahead(launch)  # an earlier rung's
        launch.told().say(f"trial {len(made) + 1}: rung {rung.index}  {rung}", "")
        tried = trial.run(replace(job, comes_to=functools.partial(_begin_ahead, launch, job, rung)), rung)
        if tried.verdict.kind is Kind.CRASHED and launch.ahead is not None:  # of what both would have, perhaps
            _end_ahead(launch)
            tried = trial.run(job, rung)
        if job.adapter.general and not job.adapter.asked.unseen_step:
            tried = rung_zero.held_against(tried, launch.trial_of(0), job.ladder)
        made.append(tried)
        launch.trying = None
        launch.told().trial_ended(tried)
        waits = sum(one.verdict.kind is Kind.CARD_TAKEN for one in made)
        if tried.verdict.kind is not Kind.CARD_TAKEN or not card_is_back(launch, tried.verdict.why, waits=waits):
            return tried


def misread(job: Job, tried: Trial) -> Misread | None:
    """Says how a trial of rung 0 disproves what was read of a user's own command; None if it doesn't, or is another rung's."""
    return rung_zero.misread(tried, unsaid=job.adapter.asked.unsaid) if job.adapter.general else None


def card_is_back(launch: Launch, holder: str, *, waits: int = 0) -> bool:
    """Tells whether the card is free again, after waiting if the recipe says so. ``waits``: the waits of this launch so far."""
    device = launch.job.recipe.device
    if device.when_taken == "stop" or waits > MOST_WAITS:
        return False
    most, launch.waits_for = format_duration(device.taken_timeout_s), holder
    launch.told().say(f"the card is taken: {holder}. Waiting up to {most} for it (device.when_taken=stop would end it here)")
    back = not devices.wait_for(launch.job.budget, timeout_s=device.taken_timeout_s)
    launch.waits_for = ""
    return back


def _begin_ahead(launch: Launch, job: Job, rung: Rung, pid: int, phase: str) -> None:
    """Begins the run of a rung beside its trial: what it does before its first change and the device isn't waited for later. It is begun
    while a launch's first trial makes its imports; later ones are forked, and often fail at once."""
    if phase == PLAIN:  # a crash: what both would have is the plain command's
        _end_ahead(launch)
        launch.alone = True
    if launch.alone:
        return
    if launch.ahead is not None and not procfs.leaves_room(pid, free=host.memory()[1]):
        _end_ahead(launch)
        return
    if launch.show is not None and not (launch.ahead or launch.attempts or (launch.trials and phase in (Phase.START, Phase.SETUP))):
        with suppress(OSError, BadInput):  # a full disk, say: it is started when it is its turn, or that is told then
            launch.ahead = run.ahead(job, rung, show=launch.show, beside=pid)


def _end_ahead(launch: Launch) -> None:
    ahead, launch.ahead = launch.ahead, None
    if ahead is not None:
        ahead.end()


# ----------------------------------------------------------------------------------------------------------------------
# The full run


WORTH_A_TRIAL = 20
"""A lower rung gets a trial first if that takes less than 1/20 of the failed attempt's time."""


_Start = tuple[Command, Rung, MoveRecord]
"""The command and rung that an attempt starts with, and the move that led to them; for the first attempt an empty move."""


def see_through(launch: Launch) -> None:
    """Launches the chosen rung; after a failure launches again as ``recovery`` decides, until the run is done or nothing helps.

    If ``launch`` already has attempts, the run is resumed.
    """
    assert launch.chosen is not None and launch.command is not None
    begin = _next(launch) if launch.attempts else (launch.command, launch.chosen.rung, MoveRecord())
    while begin is not None:
        if (holder := devices.taken(launch.job.budget)) and not card_is_back(launch, holder):
            launch.status = Status.CARD_TAKEN
            no = f"not launched: the card is taken: {holder}. The command above is what fits; start it when the card is free"
            launch.told().say(no, "red")
            return
        outcome = _attempt(launch, begin)
        if outcome.done:
            another = any(one.startswith(ANOTHER_TRAINING) for attempt in launch.attempts for one in attempt.remarks)
            launch.status = Status.OTHER_TRAINING if another else Status.DONE
            _hold_to_what_was_due(launch)
            with doing("reading what the run has achieved"):
                launch.results = dict(launch.job.adapter.results(folder=launch.job.folder.path))
            return
        begin = _next(launch)
    launch.status = Status.DIVERGED if launch.attempts[-1].ended == Ended.DIVERGED else Status.FAILED


def _attempt(launch: Launch, begin: _Start) -> RunRecord:
    """Launches the trainer once and follows it to its end. Raises Interrupted if a signal ended it; the record has that, too."""
    assert launch.chosen is not None and launch.show is not None
    command, rung, move = begin
    job, chosen, files = launch.job, launch.chosen, launch.job.folder.attempt(len(launch.attempts) + 1)
    attempt = AttemptRecord.whole(
        number=files.number, command=command.shell(), began=time.time(), checkpoint=move.checkpoint, workers=move.workers,
        phase=Phase.TRAIN, effective_batch=rung.effective_batch, **rung.told,
    )  # fmt: skip
    launch.attempts.append(attempt)
    launch.job.forks.end()
    launch.status, launch.command = Status.RUNNING, command
    launch.told().launched(attempt.command)
    ahead = launch.ahead
    if ahead is not None and ahead.command == command and ahead.child.process.poll() is None and ahead.begins(job.budget):
        launch.ahead, child = None, ahead.child
    else:
        _end_ahead(launch)
        child = run.start(job, command, files, show=launch.show)
    try:
        heard = replace(job, say=launch.deviated)
        outcome = run.follow(heard, child, attempt, base_bytes=chosen.report.base_bytes, due=launch.due())
    except (Interrupted, KeyboardInterrupt):
        launch.note(ended=Ended.INTERRUPTED, seconds=time.time() - attempt.began)
        raise
    launch.outcome = outcome
    failure = outcome.memory_failure or {}
    same = {name: getattr(outcome, name) for name in ("ended", "phase", "evidence", "peak_bytes", "seconds")}
    ended = launch.note(**same, source=failure.get("source"), asked_bytes=failure.get("asked_bytes"))
    if not outcome.done:
        by = f": {ended.evidence}" if ended.evidence else ""
        lasted = f"attempt {ended.number} ended after {format_duration(ended.seconds)}"
        launch.told().say(f"autofit: {lasted}: {ended.ended} in {ended.phase}{by}", "red")
    _strike_out(launch)
    return outcome


def _hold_to_what_was_due(launch: Launch) -> None:
    """Compares the optimizer steps of a finished run below the asked rung with those of the asked training. One that was resumed from a
    checkpoint isn't compared: it made some steps before."""
    outcome, rung, due = launch.outcome, launch.rung, launch.due() if launch.rung is not None and launch.rung.index else None
    if outcome is None or outcome.optimizer_steps is None or due is None or rung is None or launch.attempts[-1].checkpoint is not None:
        return
    same, times = launch.certificate(rung), rung.accumulation / launch.job.ladder.asked.accumulation
    launch.steps = same_training.judged(outcome.optimizer_steps, due, times=times, same=same, stopped=outcome.stopped_early)
    launch.sames[rung.index] = with_steps(same, launch.steps)
    if launch.same is not None and launch.chosen is not None and rung.index == launch.chosen.rung.index:
        launch.same = launch.sames[rung.index]
    if launch.steps.otherwise:
        launch.status = Status.OTHER_TRAINING


DISPROVES = (Ended.OUT_OF_MEMORY, Ended.HOST_MEMORY)
"""Ends that show that the fit was wrong."""


def _strike_out(launch: Launch) -> None:
    """Strikes the kept fit out if the run ran out of memory at that rung, or lost something to memory. It is never used again."""
    last, outcome = launch.attempts[-1], launch.outcome
    assert launch.chosen is not None and outcome is not None
    lost = outcome.lost_to_memory
    for_good = last.ended in DISPROVES or bool(lost)
    if last.rung_index != launch.chosen.rung.index or not (for_good or last.ended == Ended.KILLED):
        return
    why = lost[0] if last.ended not in DISPROVES and lost else last.evidence or str(last.ended)
    launch.reuse, wrong = reuse.disproved(launch.job, launch.reuse, rung_index=last.rung_index, why=why[:200], for_good=for_good)
    if wrong:
        launch.deviated(f"could not write down that its fit was wrong: {wrong}")
    elif launch.reuse.record.digest is not None and not for_good:
        launch.deviated("was killed for an unknown reason: its kept fit is not used again before new trials")


def _next(launch: Launch) -> _Start | None:
    """Returns what to launch after the last attempt has ended; None if nothing more can be done."""
    move = _move(launch)
    while move.move == "go_on" and _is_ruled_out(launch, move):
        move = _move(launch)
    rung = launch.job.ladder.rungs[move.rung_index] if move.rung_index is not None else None
    if rung is None:
        launch.told().say(f"autofit: nothing more is tried: {move.why}", "red")
        return None
    origin = f"from {move.checkpoint}" if move.checkpoint is not None else "from the beginning"
    workers = f", {move.workers} loader workers" if move.workers is not None else ""
    launch.told().say(f"autofit: {move.why}. Rung {rung.index} ({rung}{workers}), {origin}")
    place = launch.job.adapter.saved(launch.job.folder.path).place
    if move.checkpoint is None and place.exists():  # it starts from the beginning, and removes nothing
        place.rename(place.with_name(f"{place.name}.attempt-{len(launch.attempts)}"))
    return run.command_of_attempt(launch.job, move, rung, attempt=len(launch.attempts) + 1), rung, move


def _move(launch: Launch) -> MoveRecord:
    """Decides what comes next, and writes it down. If the card is to be waited for, that is done before the launch."""
    job, asked, (left, spoiled) = launch.job, launch.job.adapter.asked, _left(launch)
    launch.note(left=list(left))
    tried = tuple(Tried(rung=one.rung, verdict=one.verdict) for one in launch.trials if one.verdict.kind is not Kind.CARD_TAKEN)
    history = History(
        ladder=job.ladder, rules=job.recipe.recover, attempts=tuple(launch.attempts), checkpoints=tuple(left), spoiled=spoiled,
        keeps=asked.keeps, tried=tried, workers=asked.workers, forgiven=launch.forgiven, as_accumulated=bool(launch.refused),
    )  # fmt: skip
    move = decide(history)
    resumed = len(launch.attempts) == launch.forgiven  # a person has said so, and was told of it
    if not move.stops and not resumed and (newer := job.adapter.edited(since=job.folder.launched())):
        why = f"edited since the launch: {', '.join(newer)}; autofit resume goes on with that, at the launch's rung"
        move = MoveRecord(move="stop", why=why, checkpoint=move.checkpoint)
    launch.note(next=move)
    launch.write()
    return move


def _left(launch: Launch) -> tuple[Sequence[Checkpoint], Mapping[Path, str]]:
    """Returns (checkpoints that the run can be resumed from; if there are none, the files it saved, each with why it can't be used).

    Checkpoints that lay there before the run began, or before it was begun anew, are not its own.
    """
    began = next((one.began for one in reversed(launch.attempts) if one.checkpoint is None), 0.0)
    with doing("looking which checkpoints are whole"):
        saved = launch.job.adapter.saved(launch.job.folder.path)
        looked = {path: one for path, one in saved.look(saved.files).items() if files.written_at(path) >= began - 1.0}
    whole = [Checkpoint.whole(**dict(one)) for one in looked.values() if isinstance(one, Checkpoint)]
    return whole, {} if whole else {path: one for path, one in looked.items() if not isinstance(one, Checkpoint)}


def _is_ruled_out(launch: Launch, move: MoveRecord) -> bool:
    """Tries the move's rung, and proves that it is the asked training, as far as that is to be done. Returns whether it is out by that.
    A failed trial of another kind doesn't end a run that has begun."""
    job, rung = launch.job, launch.job.ladder.rungs[move.rung_index or 0]
    if _needs_a_trial(launch, move) and make_trial(launch, rung).verdict.lower_rung_may_help:
        return True
    proven = any(one.seconds and proof.needed(job, job.ladder.rungs[index]) for index, one in launch.sames.items())
    if proven or not proof.needed(job, rung):
        return False
    found = _prove(launch, rung, job)
    if found.job is None:
        return bool(found.refused)
    _take(launch, found.job)
    return _with_its_cure(launch, rung, found.job).verdict.kind not in (Kind.FITS, Kind.CARD_TAKEN)


def _needs_a_trial(launch: Launch, move: MoveRecord) -> bool:
    """Tells whether the rung gets a trial before it is launched: it may need more than the failed one, or its trial is cheap.

    Trials before a cure was known don't count: they didn't have it, and can have needed less."""
    assert launch.chosen is not None
    last, trials = launch.attempts[-1], launch.trials
    if launch.same is not None and launch.same.cure:
        trials = trials[next((at for at, one in enumerate(trials) if one is launch.chosen), 0) :]
    tried = {one.rung.index for one in trials if one.verdict.kind is not Kind.CARD_TAKEN}
    if move.rung_index in (last.rung_index, *tried):
        return False
    return move.unproven or launch.chosen.seconds * WORTH_A_TRIAL < last.seconds


# ----------------------------------------------------------------------------------------------------------------------
# What might fit, if no rung does


def could_fit(launch: Launch) -> Iterator[Could]:
    """Yields what a person could accept: wheels that are asked and nobody lets turn; the difference that a proof has found; a smaller
    effective batch, if only that keeps the micro-batch up."""
    job, rules = launch.job, launch.job.recipe.ladder
    accumulates = not launch.refused and all(trial.verdict.source != "accumulation" for trial in launch.trials)
    others = [name for name in job.recipe.ask if name not in (*rules.order, *AS_ASKED)]
    for name in others:
        order = (*rules.order, name)
        freed = _freed(job, order=order)
        if freed is not None and any(name in freed.ladder.given_up(rung) for rung in freed.ladder.rungs):
            rung = _estimated(launch, freed, accumulates=accumulates)
            yield Could(flag=f"--give-up {name}", key=f"ladder.order=[{','.join(order)}]", rung=rung)
    if launch.refused and rules.keep_update:
        yield Could(flag="--allow-difference", key="ladder.keep_update=false", rung=_estimated(launch, job, accumulates=True))
    fixed = launch.misread is None and len({rung.micro_batch for rung in job.ladder.rungs}) == 1 and type(job.adapter).general
    if rules.keep_batch and job.ladder.asked.micro_batch > 1 and (fixed or not accumulates):
        order = (MICRO_BATCH, *(name for name in rules.order if name != MICRO_BATCH))
        wheels = {name: rule for name, rule in rules.wheels.items() if name != MICRO_BATCH}
        if (freed := _freed(job, keep_batch=False, order=order, wheels=wheels)) is not None:
            yield Could(flag="--allow-batch", key="ladder.keep_batch=false", rung=_estimated(launch, freed, accumulates=True))


def _freed(job: Job, **rules: Any) -> Job | None:
    """The launch with other rules of its ladder; None where they can't be."""
    adapter = type(job.adapter)(job.recipe.model_copy(update={"ladder": job.recipe.ladder.model_copy(update=rules)}))
    try:
        return None if adapter.check() else replace(job, adapter=adapter, ladder=build.ladder_of(adapter))
    except BadInput:
        return None


def _estimated(launch: Launch, job: Job, *, accumulates: bool) -> Rung | None:
    """Returns the first of the job's rungs that is estimated to fit. ``accumulates``: more accumulation than asked is no other training."""
    ladder, cap = job.ladder, job.budget.cap_bytes
    need = estimates(ladder.rungs, [as_tried(one, cap) for one in launch.trials if misread(launch.job, one) is None])
    may = (rung for rung in ladder.rungs if accumulates or rung.accumulation <= ladder.asked.accumulation)
    return next((rung for rung in may if need.get(rung.index, 2.0) <= 1.0), None)
