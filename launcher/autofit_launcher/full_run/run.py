"""Starts the full run as the trainer's own process, with the environment of its trial, and follows it to its end.

Measures it, reads its output, ends it if it hangs or diverges, and tells how and why it ended: ``full_run.losses`` judges its losses,
``machine.stall`` whether it is at work, ``full_run.cause`` its end. No process is left behind.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from autofit_launcher.adapter.commands import Command, under_budget
from autofit_launcher.adapter.log_line import LogLine
from autofit_launcher.adapter.progress import Progress
from autofit_launcher.adapter.protocol import FIRST, RunStart, Weights
from autofit_launcher.adapter.registry import words_of
from autofit_launcher.common import procfs
from autofit_launcher.common.activity import doing
from autofit_launcher.common.files import plain
from autofit_launcher.common.files import replace as replace_text
from autofit_launcher.common.memory_failures import NEAR_LIMIT, lost_in
from autofit_launcher.common.orders import CAME, GONE, HELD, SAVES, STEPS, TURN
from autofit_launcher.common.sizes import GIB
from autofit_launcher.full_run import cause
from autofit_launcher.full_run.cause import Ended, RunEnd
from autofit_launcher.full_run.losses import Losses
from autofit_launcher.history import series
from autofit_launcher.history.records import AttemptRecord, MoveRecord, RunRecord
from autofit_launcher.history.run_folder import AttemptFiles
from autofit_launcher.ladder.rungs import Rung
from autofit_launcher.ladder.same_training import Due
from autofit_launcher.machine import devices, host, process
from autofit_launcher.machine.devices import Budget, allocator_environment
from autofit_launcher.machine.meter import Usage
from autofit_launcher.machine.process import Child, Ending, Shows
from autofit_launcher.machine.stall import Silence
from autofit_launcher.trial.job import Job


def native_command(job: Job, rung: Rung) -> Command:
    """The native command of the full run, which doesn't need autofit. Writes its files, and the command itself as command.sh."""
    return _written(job, rung, FIRST, job.folder.command)


def command_of_attempt(job: Job, move: MoveRecord, rung: Rung, *, attempt: int) -> Command:
    """The command that resumes a run. Writes ``command.sh`` (the whole run at that rung) and ``native/attempt-N.sh`` (this attempt)."""
    native_command(job, rung)
    origin = f"on from {move.checkpoint}" if move.checkpoint is not None else "from the beginning"
    begin, script = RunStart(checkpoint=move.checkpoint, attempt=attempt, workers=move.workers), job.folder.attempt(attempt).command
    return _written(job, rung, begin, script, f"Attempt {attempt}: {origin}.")


def _written(job: Job, rung: Rung, begin: RunStart, script: Path, more: str = "") -> Command:
    """The command, after writing its files and itself, as ``script``."""
    command = _composed(job, rung, begin)
    job.folder.replace(script, _as_file(command, rung, more))
    script.chmod(0o755)
    return command


def _composed(job: Job, rung: Rung, begin: RunStart) -> Command:
    """The command, after writing its files."""
    command = job.adapter.command(rung, job.budget, folder=job.folder.path, start=begin)
    on_card = allocator_environment(job.budget) if job.budget.kind == "cuda" else {}
    ranks = command.ranks or (1 if job.adapter.starts_ranks else len(job.budget.each))
    command = replace(command, env={**on_card, **command.env}, ranks=ranks)
    for path, text in command.files.items():
        job.folder.replace(path, text)
    return command


def _as_file(command: Command, rung: Rung, more: str = "") -> str:
    """The command as a shell script that works from any folder and without the environment's programs on PATH."""
    first, *rest = command.words
    found = replace(command, argv=(process.program(first), *rest), ranks=1)
    words = [
        "#!/bin/sh",
        f"# What autofit launches at rung {rung.index}; it needs the trainer, not autofit.",
        *([f"# {' '.join(more.splitlines())}"] if more else ()),
        f"cd {shlex.quote(os.getcwd())} || exit",
        found.shell(),
    ]
    return "\n".join(words) + "\n"


@dataclass(frozen=True, slots=True)
class Ahead:
    """The process of a full run that was begun while its rung is tried, or proven: it waits for its turn before it changes anything, and
    before it uses the device (``inside.gate``)."""

    command: Command
    child: Child
    files: AttemptFiles
    turn: Path

    def begins(self, budget: Budget) -> bool:
        """Has the process go on: it is the run. Tells whether it does; one that hadn't come to the gate may just be ending itself there."""
        self.child.begins()
        replace_text(self.turn, str(devices.free_now(budget) or ""))
        if not Path(f"{self.turn}{CAME}").exists():
            time.sleep(0.2)
        return self.child.process.poll() != GONE

    def end(self) -> None:
        """Ends the process, which has changed nothing."""
        self.child.end(grace_s=0.0)
        shutil.rmtree(self.files.processes, ignore_errors=True)


LEAST_FREE_BYTES = 4 * GIB
"""Host memory without which no run is begun ahead: what its imports take shows only once they are made."""


def ahead(job: Job, rung: Rung, *, show: tuple[Shows, Shows], beside: int) -> Ahead | None:
    """Begins the full run of a rung ahead; None where that can't be: several ranks, no budget that it is held to, a card whose memory
    spills (which its trial's seconds tell), a program that isn't Python's, or too little host memory beside the process ``beside``."""
    budget, files, turn = job.budget, job.folder.attempt(1), job.folder.path / "native" / TURN
    if budget.ranks or budget.may_spill or rung.world_size > 1 or not _held(budget):
        return None
    command, free = _composed(job, rung, FIRST), host.memory()[1]
    room = free > LEAST_FREE_BYTES and procfs.leaves_room(beside, free=free)
    if (command.ranks or 1) > 1 or not room or not process.is_python(command.words[0]):
        return None
    turn.unlink(missing_ok=True)
    return Ahead(command, start(job, command, files, show=show, turn=turn), files, turn)


def _held(budget: Budget) -> bool:
    """Tells whether the run is held to its budget: one that grows would spill, or use more than the smaller card that was asked for."""
    return budget.kind == "cuda" or budget.emulated


def start(job: Job, command: Command, files: AttemptFiles, *, show: tuple[Shows, Shows], turn: Path | None = None) -> Child:
    """Starts the full run. Its output goes, unchanged, to ``show`` and to the two logs of ``files``. ``turn``: it is begun ahead.

    On a card the run is always held to its budget, and so is one on a CPU whose budget is emulated: one that grows would spill, or use more
    than the smaller card that was asked for. The command that is shown leaves this out.
    """
    budget = job.budget
    saves = "inside.whole_saves" if job.recipe.recover.whole_saves else ""
    env = {**allocator_environment(budget), **command.env, **command.told, SAVES: saves}
    if _held(budget):
        env |= under_budget(command, budget, settings=job.folder.path / "native" / "budget.json", turn=str(turn or "")).env
    first, *rest = command.words
    argv = (process.program(first), *rest)
    env |= {HELD: str(files.processes)}
    return process.start(argv, env=env, stdout=files.stdout, stderr=files.stderr, show=show, ahead=turn is not None)


SAMPLE_S = 1.0
END_GRACE_S = 5.0
"""Seconds between TERM and KILL for a run that autofit itself ends: nothing it could still save is of use."""
POLL_S = 0.5
"""Seconds between two polls. The run's end and signals are noticed at once all the same; more polls would slow the run down."""


def follow(job: Job, child: Child, attempt: AttemptRecord, *, base_bytes: int, due: Due | None = None) -> RunRecord:
    """Waits for the run's end. Ends a run that hangs or diverges, as the recipe says.

    Raises Interrupted once a signal has ended the run. When this returns, no process of the run is left and its memory is free again.
    ``attempt``: the child's. ``base_bytes``: what libraries held in the trial's process when its budget
    was taken. ``due``: optimizer steps of the asked training; None: unknown.
    """
    files, rung = job.folder.attempt(attempt.number), job.ladder.rungs[attempt.rung_index]
    usage = Usage(child.pid, job.budget, files.processes, base_bytes=base_bytes)
    watch = RunWatch(child, job, rung, usage, files=files)
    kills, began = host.oom_kills(), time.time()
    usage.start()
    try:
        with process.forward_signals(child, grace_s=job.recipe.run.grace_s, told=watch.leaving):
            ending = process.wait(child, each_poll=watch, poll_s=POLL_S, stderr=files.stderr)
    finally:
        usage.stop()
        watch.look(ended=True)
    with doing("waiting until the device has its memory back"):
        settled = devices.settle(job.budget)
    words, tail = words_of(job.adapter), f"{child.tail(files.stdout)}\n{ending.stderr_tail}"
    on_card = job.budget.kind == "cuda"
    end = RunEnd(
        returncode=ending.returncode,
        words=tail,
        divergence=words.divergence(tail),
        unwritable=(host.read_only(job.folder.path) or host.full_disk(job.folder.path)) if ending.returncode else "",
        ended_for=watch.ended_for,
        not_finite=watch.losses.line,
        weights=_weights(job, ending, watch, since=began),
        on_card=on_card,
        at_limit=not on_card and usage.peak_bytes >= NEAR_LIMIT * job.budget.budget_bytes,
        oom_kills=host.oom_kills() - kills,
        taken="" if settled else devices.taken(job.budget),
    )
    found, steps, progress = cause.find(end), watch.steps, watch.progress
    lost = lost_in(files.stdout, files.stderr, on_card=on_card, also=words.loses_memory)
    return RunRecord(
        returncode=ending.returncode, seconds=ending.seconds, peak_bytes=usage.peak_bytes,
        memory_failure=plain(found.failure), ended=found.ended, phase=found.phase, evidence=watch.evidence or found.evidence,
        optimizer_steps=steps.in_all(progress, due), stopped_early=steps.stopped_early, ended_at=progress.short_of_its_length,
        lost_to_memory=cause.gone_on_without(lost, tail, found.failure),
    )  # fmt: skip


def _weights(job: Job, ending: Ending, watch: RunWatch, *, since: float) -> Weights | None:
    """The weights that a run which went well saved last, if its adapter can look at them: its output may hide a loss that isn't finite."""
    if ending.returncode or watch.ended_for is not None or watch.losses.line:
        return None
    with doing("looking whether the weights it saved last are finite"):
        return job.adapter.saved(job.folder.path).weights(since)


class RunWatch:
    """Called at every poll; cheap. Reads what the run says, writes its series, and ends one that hangs or diverges."""

    def __init__(self, child: Child, job: Job, rung: Rung, usage: Usage, *, files: AttemptFiles) -> None:
        self._child, self._job, self._rung, self._usage, self._files = child, job, rung, usage, files
        self._series, self._highest_bytes, rules = series.Series(job.folder.series), 0, job.recipe.recover
        self.progress = Progress()
        self.steps, self.losses = StepsMade(self._files.processes), Losses(rules.nan_reports)
        self._silence = Silence(child.awake.seconds, least_s=rules.stall_s)
        self._sampled = child.awake.seconds
        self._words, self._deviations = words_of(job.adapter), set[str]()
        self._logs = [Log(path, self._heard) for path in (self._files.stdout, self._files.stderr)]
        self.ended_for: Ended | None = None
        """The reason for which the run was ended from here."""
        self.evidence = ""

    def __call__(self) -> None:
        now = self._child.awake.seconds
        if now - self._sampled < SAMPLE_S - POLL_S / 2:
            return
        self._sampled = now
        grew, busy_s = self.look(), procfs.work_seconds(self._child.pid)
        if self._silence.look(now, grew=grew, busy_s=busy_s):
            self._end(Ended.STALLED, "no output and no processor time used", "stands still, and is ended")

    def look(self, *, ended: bool = False) -> bool:
        """Reads the run's new output and writes a line of its series; ``ended``: for the last time. Returns whether there was output."""
        grown = [log.look(ended=ended) for log in self._logs]
        if ended or self._usage.peak_bytes > self._highest_bytes or self._series.due(time.time()):
            self._highest_bytes = self._usage.peak_bytes
            used, peak = self._usage.now_bytes, self._usage.lately()
            memory = {"used_bytes": used, "peak_bytes": peak, "highest_bytes": self._usage.peak_bytes}
            said = {name: getattr(self.progress, name) for name in ("phase", "epoch", "epochs", "step", "steps", "loss", "done")}
            self._series.add({"at": round(time.time(), 1), **memory, **said})
        return any(grown)

    def _heard(self, line: str) -> None:
        """Takes in a line of the run's output. Ends the run if its loss stays not finite, unless the recipe lets it go on."""
        said = LogLine(progress=self.progress)
        with suppress(Exception):  # an adapter that stumbles over a line ends no training
            said = self._job.adapter.read_log(line, self.progress, rung=self._rung)
        self.progress = said.progress
        self.steps.heard(line, said)
        if (deviation := self._words.deviation(line)) and deviation not in self._deviations:
            self._deviations.add(deviation)
            self._tell(deviation, line)
        reports = self.losses.saw(line, said)
        if reports == "first":
            self._tell("has a loss that is not finite", line)
        elif reports == "enough" and self._job.recipe.recover.on_nan != "go_on":
            self._end(Ended.DIVERGED, line, "has a loss that stays not finite, and is ended")

    def _end(self, cause: Ended, evidence: str, words: str) -> None:
        if self.ended_for is None:
            self.ended_for, self.evidence = cause, evidence
            self._tell(words, evidence)
            if self._child.process.poll() is None:
                self._child.end(grace_s=END_GRACE_S)

    def leaving(self, signal_name: str) -> None:
        """Tells that a signal was passed on to the run."""
        grace = f"has up to {self._job.recipe.run.grace_s:.0f} s to save (run.grace_s); a second signal ends it now"
        self._tell(grace, signal_name)

    def _tell(self, what: str, line: str) -> None:
        """Says how the run deviates from what was asked, or what is done about it: the end of a sentence that begins with "the run"."""
        self._job.say(f"{what}: {line}", "yellow")


MOST_LINES = 2000
"""Lines that are read between two looks at most, the last ones. A line takes about 20 microseconds (500 characters: up to 90)."""


class Log:
    """A log of the run, read as it grows."""

    def __init__(self, path: Path, heard: Callable[[str], None]) -> None:
        self._path, self._heard = path, heard
        self._at = 0
        self._rest = b""

    def look(self, *, ended: bool = False) -> bool:
        """Reads new lines; returns whether the file has grown. ``ended``: nothing more comes, so the last line needs no newline."""
        with suppress(OSError), self._path.open("rb") as file:
            file.seek(self._at)
            fresh = file.read()
            self._at += len(fresh)
            *whole, self._rest = (self._rest + fresh).replace(b"\r", b"\n").split(b"\n")
            if ended:
                whole, self._rest = [*whole, self._rest], b""
            for line in whole[-MOST_LINES:]:
                self._heard(line.decode("utf-8", errors="replace").strip()[:500])
            return bool(fresh)
        return False


LAST_LINES = 400
"""A line about early stopping counts only this many lines before the end; earlier it is about a setting."""
_STOPPED_EARLY = re.compile(r"\bearly[ _-]?stopp(ing|ed)\b|\bstopp(ed|ing)( \w+)? early\b", re.IGNORECASE)
_NOT_YET = re.compile(
    r"counter|patience\W{0,2}[=:]|no early|without early|enabled|disabled|stopping\W*[=:]\W*(true|false|none|null|\d)", re.IGNORECASE
)


class StepsMade:
    """Counts the optimizer steps of one attempt."""

    def __init__(self, processes: Path) -> None:
        """``processes``: the folder in which its processes write their base and their steps."""
        self._processes = processes
        self._said: int | None = None
        self._lines = 0
        self._stopped: tuple[int, str] | None = None

    def heard(self, line: str, said: LogLine) -> None:
        """A line of the run's."""
        self._lines += 1
        if _STOPPED_EARLY.search(line) and not _NOT_YET.search(line):
            self._stopped = self._lines, line.strip()[:120]
        if said.optimizer_steps is not None:
            self._said = said.optimizer_steps

    def counted(self) -> int | None:
        """Steps of the process that made most; None if no process counts them, or if several optimizers step in it."""
        told = self._processes.glob(f"*{STEPS}") if self._processes.is_dir() else ()
        most: list[int] = max(map(_steps_told, told), key=sum, default=[])
        return most[0] if len(most) == 1 else None

    @property
    def stopped_early(self) -> str:
        """The line, among its last, in which the run says that it stopped early; else empty."""
        return self._stopped[1] if self._stopped is not None and self._lines - self._stopped[0] < LAST_LINES else ""

    def in_all(self, progress: Progress, due: Due | None) -> int | None:
        """Steps of a run that has ended; None if unknown. A progress bar counts if its length is the trainer's own number of steps."""
        if (counted := self.counted()) is not None:
            return counted
        if self._said is not None:
            return self._said
        by_bar = due is not None and due.sure and not progress.of_epoch and progress.steps == due.most
        return progress.step if by_bar else None


def _steps_told(path: Path) -> list[int]:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return [int(one) for one in json.loads(path.read_text(encoding="utf-8"))["steps"]]
    return []
