"""The verdict on a trial of several ranks is that of the rank that ended it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.ladder.rungs import Wheel, build
from launcher.ladder.verdict import Kind
from launcher.shared.ending import Ending
from launcher.shared.report import Failure, Phase, PhaseUse, TrialReport
from launcher.trial import ranks
from launcher.trial.judge import Needs, judge

RUNG = build([Wheel(name="micro_batch", values=(8,))], effective_batch=16, world_size=2).asked
MIB = 2**20


def ended(returncode: int = 0) -> Ending:
    return Ending(returncode=returncode, timed_out=False, seconds=9.0, peak_data_bytes=600 * MIB, stderr_tail="")


def report(peak: int = 100, *, cap: int = 200, phase: Phase = Phase.DONE, says: str = "", world: int | None = 2) -> TrialReport:
    failure = Failure(types=(says.partition(":")[0], "Exception"), message=says, traceback=says) if says else None
    seen = {"micro_batch": 8, "device": "cpu", **({"world_size": world} if world else {})}
    return TrialReport(
        phase=phase, failure=failure, observed=seen, optimizer_steps=2, train_batches=2, validation_batches=2, train_again_batches=1,
        uses=(PhaseUse(phase=Phase.TRAIN, seconds=1, reserved_bytes=peak * MIB),), cap_bytes=cap * MIB, ceiling_bytes=2 * cap * MIB,
    )  # fmt: skip


def verdict(*reports: TrialReport, end: Ending | None = None) -> tuple[Kind, str]:
    def one(said: TrialReport, how: Ending) -> ranks.Verdict:
        return judge(said, how, rung=RUNG, needs=Needs(optimizer_steps=2, validation_batches=1))

    _, found = ranks.judged(reports, end or ended(), one)
    return found.kind, found.why


OOM = "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes"
ECHO = "RuntimeError: [gloo/transport/tcp/pair.cc:538] Connection closed by peer [127.0.0.1]:4711"
TORCHRUN = """
Root Cause (first observed failure):
[0]:
  time      : 2026-11-23_08:00:00
  host      : here
  rank      : 1 (local_rank: 1)
  exitcode  : {status} (pid: 17) Signal
"""


@pytest.mark.parametrize(("reports", "kind", "said"), [
    ([report(phase=Phase.TRAIN, says=ECHO), report(phase=Phase.TRAIN, says=OOM)], Kind.OUT_OF_MEMORY, "rank 1 of 2: out of memory"),
    ([report(phase=Phase.TRAIN), report(phase=Phase.TRAIN, says=OOM)], Kind.OUT_OF_MEMORY, "rank 1 of 2: out of memory"),
    ([report(phase=Phase.TRAIN, says=OOM), report(phase=Phase.TRAIN, says=ECHO)], Kind.OUT_OF_MEMORY, "rank 0 of 2"),
    ([report(phase=Phase.TRAIN, says=ECHO), report(phase=Phase.TRAIN, says="KeyError: 'x'")], Kind.CRASHED, "rank 1 of 2: KeyError"),
    ([report(phase=Phase.TRAIN, says="KeyError: 'x'"), report(phase=Phase.TRAIN, says=OOM)], Kind.OUT_OF_MEMORY, "rank 1 of 2"),
    ([report(phase=Phase.TRAIN, says=ECHO), report(phase=Phase.VALIDATE)], Kind.CRASHED, "rank 1 of 2: ended by exit status 1"),
])  # fmt: skip
def test_the_rank_that_the_others_failures_came_of_is_the_verdict(reports: list[TrialReport], kind: Kind, said: str) -> None:
    found, why = verdict(*reports, end=ended(returncode=1))
    assert (found, why.startswith(said)) == (kind, True), why


def test_a_rank_that_the_kernel_killed_is_told_by_torchrun() -> None:
    end = replace(ended(returncode=1), stderr_tail=TORCHRUN.format(status=-9))
    found, why = verdict(report(phase=Phase.TRAIN, says=ECHO), report(phase=Phase.TRAIN), end=end)
    assert found is Kind.OUT_OF_MEMORY and why.startswith("rank 1 of 2: out of memory in phase train") and "SIGKILL" not in why


def test_each_rank_has_to_fit_its_own_cap() -> None:
    assert verdict(report(100), report(100)) == (Kind.FITS, "fits")
    found, why = verdict(report(250, cap=300), report(250, cap=200))
    assert found is Kind.OUT_OF_MEMORY and why.startswith("rank 1 of 2: needs 250 MiB in phase train, 50 MiB over the cap")


def test_the_rank_with_least_room_tells_the_need() -> None:
    decides, found = ranks.judged(
        [report(150, cap=300), report(120, cap=130)],
        ended(),
        lambda said, how: judge(said, how, rung=RUNG, needs=Needs(optimizer_steps=2, validation_batches=1)),
    )
    assert found.peak_bytes == 120 * MIB and decides.cap_bytes == 130 * MIB and decides.notes[-1] == "the 2 ranks needed 150 MiB, 120 MiB"


@pytest.mark.parametrize("world", [1, None, 4])
def test_processes_that_train_each_for_itself_prove_nothing(world: int | None) -> None:
    found, why = verdict(report(world=world), report(world=world))
    assert found is Kind.VACUOUS and why == f"2 processes were started to train together, and they saw {world}, {world} of them"


@pytest.mark.parametrize(("reports", "kind", "said"), [
    ([report(phase=Phase.TRAIN, says=ECHO), report(phase=Phase.TRAIN, says=OOM)], Kind.OUT_OF_MEMORY, "rank 1 of 2: out of memory"),
    ([report(phase=Phase.TRAIN, says=ECHO), report(phase=Phase.TRAIN)], Kind.CRASHED, "rank 1 of 2: ended by exit status 1"),
    ([report(phase=Phase.TRAIN, says=ECHO)], Kind.FITS, "together"), ([report(), report()], Kind.FITS, "together"),
])  # fmt: skip
def test_of_a_commands_own_ranks_the_one_that_ended_it_is_named_where_all_told_of_themselves(
    reports: list[TrialReport], kind: Kind, said: str
) -> None:
    together = ranks.Verdict(kind=Kind.FITS, phase=Phase.DONE, why="together", peak_bytes=900 * MIB)

    def one(seen: TrialReport, how: Ending) -> ranks.Verdict:
        return judge(seen, how, rung=RUNG, needs=Needs(optimizer_steps=2, validation_batches=1))

    told = [replace(seen, facts={"rank": rank, "world_size": 2}) for rank, seen in enumerate(reports)]
    found = ranks.of_its_own(list(reversed(told)), ended(1), one, together=together)
    assert (found.kind, found.peak_bytes) == (kind, 900 * MIB) and found.why.startswith(said)


@pytest.mark.parametrize(
    ("function", "said"), [("loads", "rank 1 of 2 did not come"), ("_engine_run_backward", "it stood still in phase train")]
)
def test_of_ranks_that_stood_still_the_one_that_did_not_come_is_named_and_no_other(function: str, said: str) -> None:
    frame = 'Thread 0x1 (most recent call first):\n  File "/x.py", line 3 in {}\n'
    stacks = "".join(
        f"process {9 + rank} (sleeping, rank {rank}): python\n{frame.format(name)}\n"
        for rank, name in enumerate(("_engine_run_backward", function))
    )
    reports = [report(phase=Phase.TRAIN), report(phase=Phase.TRAIN)]
    kind, why = verdict(*reports, end=replace(ended(-15), stood_still=stacks))
    assert kind is Kind.STALLED and why.startswith(said)
