"""Follows a full run to its end, and returns how and why it ended. Passes signals on; leaves no process behind."""

from __future__ import annotations

import time
from collections.abc import Sequence

from launcher.adapter.protocol import Weights
from launcher.adapter.registry import words_of
from launcher.ladder.course import Due
from launcher.machine import devices, host, process, unwritable
from launcher.machine.process import Child
from launcher.run import cause
from launcher.run.attempt import Attempt, Ended, Outcome
from launcher.run.cause import Cause, RunEnd
from launcher.run.memory_usage import Usage
from launcher.run.meter import RunMeter
from launcher.run.watch import NEAR_LIMIT, POLL_S, RunWatch
from launcher.shared.activity import doing
from launcher.shared.ending import Ending
from launcher.shared.memory_failures import lost_in
from launcher.trial.job import Job


def follow(job: Job, child: Child, attempts: Sequence[Attempt], *, base_bytes: int, due: Due | None = None) -> Outcome:
    """Waits for the run's end and records its memory every half minute. Ends a run that hangs or diverges, as the recipe says.

    Raises Interrupted once a signal has ended the run. When this returns, no process of the run is left and its memory is free again.
    ``attempts``: all of the launch; the last is the child's. ``base_bytes``: what libraries held in the trial's process when its budget
    was taken. ``due``: optimizer steps of the asked training; None: unknown.
    """
    files = job.folder.attempt(attempts[-1].number)
    usage = Usage(child.pid, job.budget, files.processes, base_bytes=base_bytes)
    watch = RunWatch(child, job, RunMeter(job, attempts[-1].rung, usage), attempts, due=due)
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
    went_well = ending.returncode == 0 and watch.ended_for is None and not watch.not_finite
    words, tail = words_of(job.adapter), f"{child.tail(files.stdout)}\n{ending.stderr_tail}"
    end = RunEnd(
        returncode=ending.returncode,
        words=tail,
        divergence=words.divergence(tail),
        disk=unwritable.full_disk(job.folder.path) if ending.returncode else "",
        read_only=unwritable.read_only(job.folder.path) if ending.returncode else "",
        file_limit=unwritable.file_limit(),
        ranks=attempts[-1].rung.world_size,
        ended_for=watch.ended_for,
        not_finite=watch.not_finite,
        gradients=watch.gradients,
        weights=_weights(job, since=began) if went_well else None,
        on_card=job.budget.kind == "cuda",
        at_limit=_at_limit(job, watch, usage),
        oom_kills=None if kills is None else (host.oom_kills() or kills) - kills,
        host_free=watch.host_free,
        taken="" if settled else devices.taken(job.budget),
    )
    lost = lost_in(files.stdout, files.stderr, on_card=job.budget.kind == "cuda", also=words.loses_memory)
    found = cause.find(end)
    ended_by = found.failure if found.ended is not Ended.KILLED else None
    return _outcome(cause.gone_on_without(lost, tail, ended_by), ending, found, watch, usage)


def _at_limit(job: Job, watch: RunWatch, usage: Usage) -> bool:
    """Tells whether memory may have run out, where words alone don't say it."""
    used_all = job.budget.kind == "cpu" and usage.peak_bytes >= NEAR_LIMIT * job.budget.budget_bytes
    return watch.at_limit or used_all


def _weights(job: Job, *, since: float) -> Weights | None:
    """The weights that the run saved last, if its adapter can look at them: its output may hide a loss that isn't finite."""
    with doing("looking whether the weights it saved last are finite"):
        return job.adapter.saved(job.folder.path).weights(since)


def _outcome(lost: Sequence[str], ending: Ending, found: Cause, watch: RunWatch, usage: Usage) -> Outcome:
    return Outcome(
        returncode=ending.returncode, seconds=ending.seconds, peak_resident_bytes=watch.peak_bytes,
        peak_device_bytes=watch.peak_device_bytes, peak_bytes=usage.peak_bytes, memory_failure=found.failure, ended=found.ended,
        phase=found.phase, evidence=watch.evidence or found.evidence, optimizer_steps=watch.optimizer_steps(),
        stopped_early=watch.stopped_early, ended_at=watch.ended_at, lost_to_memory=tuple(lost),
    )  # fmt: skip
