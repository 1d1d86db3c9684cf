"""The verdict on a command that starts several ranks is that of the rank that ended it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from launcher.config.schema import LadderRules, Recipe, TrainerRules
from launcher.errors import BadInput
from launcher.history.run_folder import RunFolder
from launcher.ladder.rungs import Wheel, build
from launcher.ladder.verdict import Kind, Verdict
from launcher.shared.ending import Ending
from launcher.shared.report import Failure, Phase, TrialReport
from launcher.trainers.suite import cpu_budget
from launcher.trial import ranks, trial
from launcher.trial.job import Job
from launcher.trial.judge import Needs, judge
from tests.helpers.stand_in import StandIn

RUNG = build([Wheel(name="micro_batch", values=(8,))], effective_batch=16, world_size=2).asked
MIB = 2**20
TOGETHER = Verdict(kind=Kind.FITS, phase=Phase.DONE, why="together", peak_bytes=900 * MIB)


def ended(returncode: int = 0) -> Ending:
    return Ending(returncode=returncode, timed_out=False, seconds=9.0, peak_data_bytes=600 * MIB, stderr_tail="")


def report(*, phase: Phase = Phase.DONE, says: str = "") -> TrialReport:
    failure = Failure(types=(says.partition(":")[0], "Exception"), message=says, traceback=says) if says else None
    return TrialReport(phase=phase, failure=failure, cap_bytes=200 * MIB, ceiling_bytes=400 * MIB)


def one(said: TrialReport, how: Ending) -> Verdict:
    return judge(said, how, rung=RUNG, needs=Needs(optimizer_steps=2, validation_batches=1))


def verdict(*reports: TrialReport, end: Ending) -> tuple[Kind, str]:
    told = [replace(seen, facts={"rank": rank, "world_size": 2}) for rank, seen in enumerate(reports)]
    found = ranks.of_its_own(list(reversed(told)), end, one, together=TOGETHER)
    assert found.peak_bytes == TOGETHER.peak_bytes
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


@pytest.mark.parametrize("reports", [[report(phase=Phase.TRAIN, says=ECHO)], [report(), report()]])
def test_where_not_every_rank_told_of_itself_or_none_failed_the_command_is_judged(reports: list[TrialReport]) -> None:
    assert verdict(*reports, end=ended(1)) == (Kind.FITS, "together")


@pytest.mark.parametrize(
    ("function", "said"), [("loads", "rank 1 of 2 did not come"), ("_engine_run_backward", "it stood still in phase train")]
)
def test_of_ranks_that_stood_still_the_one_that_did_not_come_is_named_and_no_other(function: str, said: str) -> None:
    frame = 'Thread 0x1 (most recent call first):\n  File "/x.py", line 3 in {}\n'
    stacks = "".join(
        f"process {9 + rank} (sleeping, rank {rank}): python\n{frame.format(name)}\n"
        for rank, name in enumerate(("_engine_run_backward", function))
    )
    found = one(report(phase=Phase.TRAIN), replace(ended(-15), stood_still=stacks))
    assert found.kind is Kind.STALLED and found.why.startswith(said)


def test_an_adapter_whose_trial_runs_no_command_is_refused_on_several_cards(tmp_path: Path) -> None:
    budget = cpu_budget()
    rules = {"trainer": TrainerRules(adapter="stand-in"), "ladder": LadderRules(order=("micro_batch",))}
    adapter = StandIn(Recipe(name="of-a-plug-in", ask={"micro_batch": 8}, **rules))
    ladder = build([Wheel(name="micro_batch", values=(8,))], effective_batch=16, world_size=2)
    job = Job(adapter=adapter, ladder=ladder, budget=replace(budget, ranks=(budget, budget)), folder=RunFolder.create(tmp_path, "case"))
    with pytest.raises(BadInput, match="runs no command that starts a process on each"):
        trial.run(job, ladder.asked)
