"""Follows a full run to its end, and returns how and why it ended. Passes signals on; leaves no process behind."""

from __future__ import annotations

import time
from collections.abc import Sequence

from launcher.adapter.protocol import Weights
from launcher.adapter.registry import words_of
from launcher.history.records import AttemptRecord, RunRecord
from launcher.ladder.course import Due
from launcher.machine import devices, host, process, unwritable
from launcher.machine.process import Child
from launcher.run import cause
from launcher.run.attempt import Ended
from launcher.run.cause import RunEnd
from launcher.run.memory_usage import Usage
from launcher.run.meter import RunMeter
from launcher.run.watch import NEAR_LIMIT, POLL_S, RunWatch
from launcher.shared.activity import doing
from launcher.shared.ending import Ending
from launcher.shared.files import plain
from launcher.shared.memory_failures import lost_in
from launcher.trial.job import Job


def follow(job: Job, child: Child, attempts: Sequence[AttemptRecord], *, base_bytes: int, due: Due | None = None) -> RunRecord:
    """Waits for the run's end and records its memory every half minute. Ends a run that hangs or diverges, as the recipe says.

    Raises Interrupted once a signal has ended the run. When this returns, no process of the run is left and its memory is free again.
    ``attempts``: all of the launch; the last is the child's. ``base_bytes``: what libraries held in the trial's process when its budget
    was taken. ``due``: optimizer steps of the asked training; None: unknown.
    """
    files, rung = job.folder.attempt(attempts[-1].number), job.ladder.rungs[attempts[-1].rung_index]
    usage = Usage(child.pid, job.budget, files.processes, base_bytes=base_bytes)
    watch = RunWatch(child, job, RunMeter(job, rung, usage), attempts, due=due)
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
        disk=unwritable.full_disk(job.folder.path) if ending.returncode else "",
        read_only=unwritable.read_only(job.folder.path) if ending.returncode else "",
        file_limit=unwritable.file_limit(),
        ranks=rung.world_size,
        ended_for=watch.ended_for,
        not_finite=watch.losses.line,
        gradients=watch.losses.gradients,
        weights=_weights(job, ending, watch, since=began),
        on_card=on_card,
        at_limit=watch.at_limit or (not on_card and usage.peak_bytes >= NEAR_LIMIT * job.budget.budget_bytes),
        oom_kills=None if kills is None else (host.oom_kills() or kills) - kills,
        host_free=watch.host_free,
        taken="" if settled else devices.taken(job.budget),
    )
    found = cause.find(end)
    ended_by = found.failure if found.ended is not Ended.KILLED else None
    lost = lost_in(files.stdout, files.stderr, on_card=on_card, also=words.loses_memory)
    return RunRecord(
        returncode=ending.returncode, seconds=ending.seconds, peak_resident_bytes=watch.peak_bytes,
        peak_device_bytes=watch.peak_device_bytes, peak_bytes=usage.peak_bytes, memory_failure=plain(found.failure), ended=found.ended,
        phase=found.phase, evidence=watch.evidence or found.evidence, optimizer_steps=watch.steps.in_all(watch.meter.progress, due),
        stopped_early=watch.steps.stopped_early, ended_at=watch.meter.progress.short_of_its_length,
        lost_to_memory=cause.gone_on_without(lost, tail, ended_by),
    )  # fmt: skip


def _weights(job: Job, ending: Ending, watch: RunWatch, *, since: float) -> Weights | None:
    """The weights that a run which went well saved last, if its adapter can look at them: its output may hide a loss that isn't finite."""
    if ending.returncode or watch.ended_for is not None or watch.losses.line:
        return None
    with doing("looking whether the weights it saved last are finite"):
        return job.adapter.saved(job.folder.path).weights(since)
