"""Tries a rung: runs it in a child process under the cap, and returns its report with the verdict of ``trial.judge``."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from autofit_launcher.adapter.commands import Command, TrialPlan
from autofit_launcher.adapter.registry import words_of
from autofit_launcher.common import files, procfs
from autofit_launcher.common import report as reports
from autofit_launcher.common.activity import doing
from autofit_launcher.common.memory_failures import Source, lost_in
from autofit_launcher.common.orders import PLAIN, RANKS, REPORT, RESUMED, Orders
from autofit_launcher.common.report import BUDGET_ERROR, PASS_SAMPLES, RANK, SAMPLES, SAVED, WORLD_SIZE, Phase, PhaseUse, TrialReport
from autofit_launcher.errors import BadInput, Fault, refusal
from autofit_launcher.history.records import RoomRecord, TrialRecord
from autofit_launcher.ladder import search
from autofit_launcher.ladder.rungs import ACCUMULATION, MICRO_BATCH, Ladder, Rung, Value
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.machine import devices, host, process
from autofit_launcher.machine.devices import allocator_environment
from autofit_launcher.machine.meter import HostMeter, HostUse
from autofit_launcher.machine.process import Child, Ending
from autofit_launcher.machine.stall import Silence
from autofit_launcher.trial.job import Job, Say
from autofit_launcher.trial.judge import Needs, judge, rooms, short_of, verdict_on

LOOK_S = 0.1
"""Seconds between two looks at the phase of a running trial, and at what its processes compute."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """A rung, really tried, with its verdict."""

    rung: Rung
    verdict: Verdict
    report: TrialReport
    seconds: float
    folder: Path
    expects: Mapping[str, Value] = field(default_factory=dict)
    """Settings that the trial's trainer was given in place of the rung's own (fewer micro-batches per step, say)."""
    kept: str = ""
    """The time at which an earlier launch made it (``engine.reuse``); empty if this launch did."""
    rooms: tuple[RoomRecord, ...] = ()
    """The needs of its run on the machine beside the card (``trial.judge``)."""

    def record(self, **more: Any) -> TrialRecord:
        """The trial as ``record.json`` has it."""
        verdict, rung = self.verdict, self.rung
        told = {"otherwise": list(verdict.otherwise), "kept": self.kept, "rooms": list(self.rooms), **more}
        return TrialRecord(
            **rung.told, effective_batch=self.effective_batch,
            effective_batch_seen=self.batch_seen, verdict=verdict.kind.value, phase=str(verdict.phase), peak_bytes=verdict.peak_bytes,
            seconds=round(self.seconds, 3), why=verdict.why, source=verdict.source, asked_bytes=verdict.asked_bytes,
            folder=str(self.folder), **{key: value for key, value in told.items() if value},
        )  # fmt: skip

    @property
    def effective_batch(self) -> int:
        """Samples per optimizer step as the trial saw them, a script's own processes and accumulation included.

        If it couldn't see them (``batch_seen`` is False), those of the rung.
        """
        seen = self.report.facts.get(SAMPLES)
        return seen * self.rung.accumulation if isinstance(seen, int) and seen else self.rung.effective_batch

    @property
    def told_less(self) -> bool:
        """True if its trainer was told to accumulate less than the rung does, so that it ends sooner."""
        return self.expects.get(ACCUMULATION, self.rung.accumulation) != self.rung.accumulation

    @property
    def batch_seen(self) -> bool:
        """True if the trial saw how many samples an optimizer step has, and for a script its accumulation, too."""
        observed, facts = self.report.observed, self.report.facts
        whole = facts.get(PASS_SAMPLES)
        if not self.report.optimizer_steps or (isinstance(whole, int) and 0 < whole < self.effective_batch):  # a pass ends with a step
            return False
        return ACCUMULATION in observed if SAMPLES in facts else MICRO_BATCH in observed


def of_record(said: TrialRecord, ladder: Ladder) -> Trial:
    """A trial read from a record, with the report in its folder; what is launched by it has its segments. Raises ValueError or IndexError
    if it isn't one of this ladder's."""
    folder = Path(said.folder)
    verdict = Verdict(
        kind=Kind(said.verdict), phase=said.phase, why=said.why, source=cast(Source | None, said.source), asked_bytes=said.asked_bytes,
        peak_bytes=said.peak_bytes, otherwise=tuple(said.otherwise),
    )  # fmt: skip
    report = TrialReport.read(folder / "report.json") or TrialReport()
    if STEPPED_BACK in report.notes:
        devices.steps_back()
    return Trial(
        rung=ladder.rungs[said.rung_index], verdict=verdict, report=report, seconds=said.seconds, folder=folder, kept=said.kept,
        rooms=tuple(said.rooms),
    )  # fmt: skip


def run(job: Job, rung: Rung) -> Trial:
    """Tries one rung in a process of its own. When this returns, the process and all its children are gone.

    The trainer's output goes to ``stdout.log`` and ``stderr.log`` in the trial's folder; its files go to ``scratch/`` there, which is
    removed. Raises Interrupted on a signal, and BadInput if the budget can't be taken or a model can't be downloaded.
    """
    place, budget = job.folder.trial(rung.index), job.budget
    if holder := devices.taken(budget):
        return _not_tried(job, rung, place, holder)
    job.folder.cache.mkdir(exist_ok=True)
    plan = job.adapter.trial(rung, budget, folder=place, cache=job.folder.cache)
    if plan.fetch is not None:
        with doing("downloading what this rung needs"):
            _fetched(plan.fetch, place)
    orders = _orders(job, rung, plan, place)
    try:
        trial = _tried(job, rung, orders, plan)
        if not trial.verdict.fits and "pidfd_getfd" in files.tail(place / "stderr.log") and devices.steps_back():
            trial = _noted(_tried(job, rung, orders, plan), STEPPED_BACK)
        if _squeezed_alone(trial) and trial.report.facts.get(reports.SEARCHES):
            orders = replace(orders, searches=False)
            trial = _noted(_tried(job, rung, orders, plan), SEARCHED)
        if trial.verdict.fits and job.recipe.trial.resume and job.recipe.recover.restarts:
            if plan.resumes:
                trial = _gone_on(job, trial, orders, plan)
            elif plan.unresumed:
                trial = _noted(trial, f"it was not tried whether it can go on from a checkpoint: {plan.unresumed}")
    finally:
        shutil.rmtree(orders.scratch, ignore_errors=True)
    return trial


STEPPED_BACK = (
    "expandable segments are off: a tensor on the card that one process hands another needs a right that this container "
    "lacks with them (pytorch#165685)"
)
SEARCHED = (
    "measured without cudnn.benchmark, which the run has: it took what room there was for its search, and lets go of what it doesn't get"
)


def _squeezed_alone(trial: Trial) -> bool:
    """Tells whether the trial ended below its cap and was only at its edge: each convolution has found what it can do with there."""
    report, verdict = trial.report, trial.verdict
    return verdict.source == "measured" and report.phase == Phase.DONE and any(use.squeezed for use in report.uses)


def _tried(job: Job, rung: Rung, orders: Orders, plan: TrialPlan) -> Trial:
    """Tries what the orders say; once more, alone and started anew, where a fork, or a run begun ahead, may be the cause of how it ended.
    A crash of its own was seen without them, too (``inside.plainly``), and one that was followed in vain did train."""
    _put_aside(orders)
    trial = _finished(job, rung, orders, plan)
    of_its_own = trial.report.failure or trial.report.facts.get("ended") == "given_up" or trial.seconds > job.recipe.trial.timeout_s
    not_alone = job.forks.told or (orders.scratch / PLAIN).exists()
    if not_alone and trial.verdict.kind in (Kind.STALLED, Kind.VACUOUS, Kind.CRASHED) and not of_its_own:
        job.forks.give_up()
        job.say(f"            tried anew, alone: at first {trial.verdict.why}", "dim")
        _put_aside(orders)
        trial = _noted(_finished(job, rung, orders, plan), f"tried anew, alone: at first {trial.verdict.why}")
    return trial


FORK_STALLS_S = 30.0
"""Seconds without a sign of life after which a trial that was forked is ended: it is started anew then."""


def _ended(job: Job, orders: Orders, plan: TrialPlan) -> tuple[Ending, HostUse]:
    """Runs the process of these orders; returns how it ended, and what it took of the machine. It and all its children are gone."""
    place = Path(orders.folder)
    orders.write(place / "orders.json")
    env = {**allocator_environment(job.budget), **plan.env}
    command = process.python_module("autofit_launcher.inside", str(place / "orders.json"))
    meter = HostMeter(job.adapter.saved(job.folder.path).place)
    several = job.budget.ranks or job.ladder.asked.world_size > 1
    forks = {} if several or plan.module != COMMAND else job.forks.begin(orders, env, job.folder.trials / "forks")
    child = process.start(command, env={**env, **forks}, stdout=place / "stdout.log", stderr=place / "stderr.log")
    job.forks.adopted_by(child.pid)
    meter.begin(child.pid)
    stall_s = min(job.recipe.recover.stall_s, FORK_STALLS_S if job.forks.told else math.inf)
    watch = TrialWatch(child, orders, job.say, comes_to=job.comes_to, stall_s=stall_s)
    try:
        with process.forward_signals(child, grace_s=1.0):
            ending = process.wait(child, timeout_s=job.recipe.trial.timeout_s, each_poll=watch, stderr=place / "stderr.log")
    finally:
        meter.stop()
        job.forks.sweep()
    full_disk = host.full_disk(place)  # now: what it has written is removed
    return replace(ending, full_disk=full_disk, stood_still=watch.stood_still, peak_data_bytes=watch.peak_data_bytes), meter.use


def _gone_on(job: Job, first: Trial, orders: Orders, plan: TrialPlan) -> Trial:
    """The trial with a second process behind it, which goes on from the checkpoint that the first has saved."""
    place = first.folder / RESUMED
    orders = replace(orders, folder=str(place), main=orders.folder, resumes=True, steps_after=0)
    second = _tried(job, first.rung, orders, plan)
    uses = _as_one(second.report.uses)
    notes = tuple(dict.fromkeys((*first.report.notes, *second.report.notes)))
    report = replace(first.report, uses=(*first.report.uses, *uses), notes=notes)
    verdict = replace(first.verdict, peak_bytes=max(first.verdict.peak_bytes, report.peak_bytes, second.verdict.peak_bytes))
    if not second.verdict.fits:
        report = replace(report, phase=second.report.phase, failure=second.report.failure)
        cure = " (trial.resume=false leaves this out)" if second.verdict.kind is Kind.CRASHED else ""
        verdict = replace(second.verdict, why=f"it can't go on from a checkpoint of its own: {second.verdict.why}{cure}")
    report.write(first.folder / REPORT)
    later = {room.name: room for room in second.rooms}
    rooms = tuple(max(room, later.get(room.name, room), key=lambda one: one.needed) for room in first.rooms)
    trial = replace(first, verdict=verdict, report=report, seconds=first.seconds + second.seconds, rooms=rooms)
    job.folder.replace_json(first.folder / "verdict.json", {"rung": trial.rung, "verdict": verdict, "seconds": trial.seconds})
    return trial


def _as_one(uses: tuple[PhaseUse, ...]) -> tuple[PhaseUse, ...]:
    """Sums up what a process that goes on used from loading the checkpoint on; empty if it didn't come so far."""
    going_on = [use for use in uses if use.phase not in (Phase.START, Phase.SETUP, Phase.DONE)]
    if not going_on:
        return ()
    most = max(going_on, key=lambda use: use.held_bytes)
    seconds, batches = (sum(getattr(use, name) for use in going_on) for name in ("seconds", "batches"))
    return (replace(most, phase=Phase.RESUME.value, seconds=seconds, batches=batches),)


def _noted(trial: Trial, note: str) -> Trial:
    report = replace(trial.report, notes=(*trial.report.notes, note))
    report.write(trial.folder / REPORT)
    return replace(trial, report=report)


def _put_aside(orders: Orders) -> None:
    """Removes what an earlier process with these orders left behind (others took the card, or the launch was stopped), so that it isn't
    judged here."""
    place, made = Path(orders.folder), orders.scratch / RESUMED if orders.resumes else orders.scratch
    (place / REPORT).unlink(missing_ok=True)
    for left in (made, place / RANKS, place / RESUMED):  # reports of its processes, too
        shutil.rmtree(left, ignore_errors=True)
    for name in ("stdout.log", "stderr.log"):
        if (place / name).exists():
            (place / name).replace(place / f"{name}.before")


COMMAND = "autofit_launcher.inside.trial"
"""The module that runs a command, which starts its processes itself on several cards."""


class TrialWatch:
    """Called at every poll. Tells each new phase of the child's report, and ends a trial that stands still: no output, no batch (the
    recorder touches the report at each) and nothing computed for long. One that computes goes on until ``trial.timeout_s``.
    """

    def __init__(self, child: Child, orders: Orders, say: Say, *, stall_s: float, comes_to: Callable[[int, str], object]) -> None:
        self._child, self._say, self._comes_to = child, say, comes_to
        self._report, self._plainly = orders.report_path, orders.scratch / PLAIN
        self._signs = [self._report, *(Path(orders.folder) / name for name in ("stdout.log", "stderr.log"))]
        self._seen: tuple[float, ...] = ()
        self._began = self._looked = child.awake.seconds
        self._silence = Silence(self._began, least_s=stall_s)
        self._phase = ""
        self.stood_still = False
        self.peak_data_bytes = 0
        """Most VmData of any of its processes."""

    def __call__(self) -> None:
        now = self._child.awake.seconds
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        for one in procfs.family(self._child.pid):
            with suppress(OSError):  # it has ended
                self.peak_data_bytes = max(self.peak_data_bytes, procfs.data_bytes(one))
        phase = PLAIN if self._plainly.exists() else (TrialReport.read(self._report) or TrialReport()).phase
        before, self._seen = self._seen, tuple(map(files.written_at, self._signs))
        busy_s = procfs.work_seconds(self._child.pid) - procfs.watching_seconds(self._child.pid)
        if self._silence.look(now, grew=self._seen != before, busy_s=busy_s) and not self.stood_still:
            self.stood_still = True
            self._child.end(grace_s=1.0)
        if phase != self._phase:
            self._say(f"            {phase} at {now - self._began:.1f} s", "dim")
            self._comes_to(self._child.pid, phase)
        self._phase = phase


def _fetched(command: Command, place: Path) -> None:
    """Downloads what the rung needs. Raises BadInput with the tool's own words if that fails."""
    log = place / "fetch.log"
    child = process.start(command.argv, env=command.env, stdout=log, stderr=log)
    with process.forward_signals(child):
        ending = process.wait(child, stderr=log)
    if ending.returncode != 0:
        raise refusal(f"fetching failed: {ending.stderr_tail.strip()[-1000:]}", "Fetch it by hand.", key="ask.model", where=str(log))


def _orders(job: Job, rung: Rung, plan: TrialPlan, place: Path) -> Orders:
    """Makes the orders that the trial's child gets."""
    if job.budget.ranks and plan.module != COMMAND:
        found = f"adapter {job.adapter.name} trains on several cards, and its trial runs no command that starts a process on each"
        raise BadInput([Fault(key="device.cards", found=found, cure=f"Train on one card, or let its trial run the command ({COMMAND}).")])
    return Orders(
        module=plan.module,
        folder=str(place),
        device=job.budget.kind,
        **devices.orders_of(job.budget),
        may_spill=job.budget.may_spill,
        accumulation=rung.accumulation,
        steps=job.recipe.trial.steps,
        validation_batches=job.recipe.trial.validation_batches,
        steps_after=job.recipe.trial.steps_after,
        payload=dict(plan.payload),
        cache=str(job.folder.cache),
        cards=[devices.orders_of(one) for one in job.budget.ranks],
    )


def _not_tried(job: Job, rung: Rung, place: Path, holder: str) -> Trial:
    """The trial of a rung that was not started, because others hold the card."""
    verdict = Verdict(kind=Kind.CARD_TAKEN, phase=Phase.START, why=holder, evidence=holder)
    job.folder.replace_json(place / "verdict.json", {"rung": rung, "verdict": verdict, "seconds": 0.0})
    return Trial(rung=rung, verdict=verdict, report=TrialReport(), seconds=0.0, folder=place)


def _budget_fault(report: TrialReport | None, place: Path) -> BadInput | None:
    """The fault if the child could not take its budget, in the child's words; None otherwise. The trainer isn't to blame for it."""
    failure = report.failure if report is not None else None
    if failure is None or BUDGET_ERROR not in failure.types:
        return None
    said = next(line for line in failure.message.splitlines() if BUDGET_ERROR in line).partition(": ")[2]
    cure = "Mend what it says; this is no failure of the trainer."
    return BadInput([Fault(key="device", found=f"the budget could not be taken: {said}", cure=cure, where=str(place / "stderr.log"))])


def _finished(job: Job, rung: Rung, orders: Orders, plan: TrialPlan) -> Trial:
    ending, use = _ended(job, orders, plan)
    idle = [told["idle_free_bytes"] for told in orders.cards] or [orders.idle_free_bytes]
    settled = all(devices.settle(one, idle_free_bytes=free or None) for one, free in zip(job.budget.each, idle, strict=True))
    taken = "" if settled else devices.taken(job.budget)
    report = TrialReport.read(orders.report_path)
    if (fault := _budget_fault(report, Path(orders.folder))) is not None:
        raise fault
    settings, as_it_stands = {**rung.values, **plan.expects}, job.adapter.general and not rung.index
    held = {name: value for name, value in settings.items() if not as_it_stands or name in job.adapter.asked.told}
    observed = {**held, "device": job.budget.kind}  # what it runs and wasn't told is what was asked
    needs = Needs(optimizer_steps=orders.steps, validation_batches=1, train_again_batches=min(1, orders.steps_after), observed=observed)
    if orders.resumes:
        needs = Needs(optimizer_steps=1, validation_batches=0, train_again_batches=0, observed=observed)
    logs = [Path(orders.folder) / name for name in ("stdout.log", "stderr.log")]
    words = words_of(job.adapter)
    lost = lost_in(*logs, on_card=job.budget.kind == "cuda", also=words.loses_memory)
    verdict = judge(report, ending, rung=rung, needs=needs, lost=lost, taken=taken)
    if report is not None and not verdict.fits and RANK in report.facts and (report.failure is not None or ending.returncode < 0):
        verdict = replace(verdict, why=f"rank {report.facts[RANK]} of {report.facts[WORLD_SIZE]}: {verdict.why}")
    rooms = _rooms(job, orders, report, use) if report is not None and report.phase == Phase.DONE else []
    if verdict.fits and (room := short_of(rooms)) is not None:
        verdict = verdict_on(room, verdict)
    if not verdict.fits and not verdict.evidence.strip():
        verdict = replace(verdict, evidence=files.tail(logs[0]))
    trial = Trial(
        rung=rung, verdict=verdict, report=report or TrialReport(), seconds=ending.seconds, folder=Path(orders.folder),
        expects=plan.expects, rooms=tuple(rooms),
    )  # fmt: skip
    told = {"rung": rung, "verdict": verdict, "seconds": ending.seconds, "ending": ending}
    job.folder.replace_json(trial.folder / "verdict.json", told)
    return trial


def _rooms(job: Job, orders: Orders, report: TrialReport, use: HostUse) -> list[RoomRecord]:
    """Returns the run's needs of its machine beside the card. A pretended card's memory is the host's, so that isn't judged there."""
    if job.budget.name.endswith("(pretended)"):
        use = replace(use, memory_there=None)
    saved = None if orders.resumes else kept_bytes(report, orders.scratch)
    return rooms(use, report, headroom=job.recipe.device.host_headroom, saved=saved)


def kept_bytes(report: TrialReport, scratch: Path) -> int | None:
    """The least that the run has of its checkpoints at once on the disk of its folder; None where nobody knows. Lightning's trials have
    more passes than a short run."""
    saved, versions = report.facts.get(SAVED), report.facts.get(reports.VERSIONS, {})
    if not saved or {"lightning", "pytorch_lightning"} & set(versions):
        return None
    place = next(folder for folder in Path(saved["at"]).parents if folder.exists())
    return int(saved["bytes"]) if place.stat().st_dev == scratch.stat().st_dev else None


def as_tried(tried: Trial, cap_bytes: int) -> search.Tried:
    """A trial as the search sees it. ``cap_bytes``: of one whose report has none."""
    cap = tried.report.cap_bytes or cap_bytes
    by_phase = {use.phase: use.held_bytes / cap for use in tried.report.uses if use.held_bytes}
    need = tried.verdict.peak_bytes / cap if tried.verdict.peak_bytes else None
    if need is not None and Phase.VALIDATE in by_phase:
        by_phase[Phase.VALIDATE] = max(need if need > max(by_phase.values()) else 0.0, by_phase[Phase.VALIDATE])  # with the whole set's
    return search.Tried(rung=tried.rung, verdict=tried.verdict, need=need, by_phase=by_phase)
