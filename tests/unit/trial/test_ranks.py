"""Trials of several ranks: one that stands still, and an adapter whose trial starts none."""

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
from launcher.shared.report import Phase, TrialReport
from launcher.trainers.suite import cpu_budget
from launcher.trial import trial
from launcher.trial.job import Job
from launcher.trial.judge import Needs, judge
from tests.helpers.stand_in import StandIn

RUNG = build([Wheel(name="micro_batch", values=(8,))], effective_batch=16, world_size=2).asked


def one(said: TrialReport, how: Ending) -> Verdict:
    return judge(said, how, rung=RUNG, needs=Needs(optimizer_steps=2, validation_batches=1))


@pytest.mark.parametrize(
    ("function", "said"), [("loads", "rank 1 of 2 did not come"), ("_engine_run_backward", "it stood still in phase train")]
)
def test_of_ranks_that_stood_still_the_one_that_did_not_come_is_named_and_no_other(function: str, said: str) -> None:
    frame = 'Thread 0x1 (most recent call first):\n  File "/x.py", line 3 in {}\n'
    stacks = "".join(
        f"process {9 + rank} (sleeping, rank {rank}): python\n{frame.format(name)}\n"
        for rank, name in enumerate(("_engine_run_backward", function))
    )
    found = one(TrialReport(phase=Phase.TRAIN), Ending(returncode=-15, stood_still=stacks))
    assert found.kind is Kind.STALLED and found.why.startswith(said)


def test_an_adapter_whose_trial_runs_no_command_is_refused_on_several_cards(tmp_path: Path) -> None:
    budget = cpu_budget()
    rules = {"trainer": TrainerRules(adapter="stand-in"), "ladder": LadderRules(order=("micro_batch",))}
    adapter = StandIn(Recipe(name="of-a-plug-in", ask={"micro_batch": 8}, **rules))
    ladder = build([Wheel(name="micro_batch", values=(8,))], effective_batch=16, world_size=2)
    job = Job(adapter=adapter, ladder=ladder, budget=replace(budget, ranks=(budget, budget)), folder=RunFolder.create(tmp_path, "case"))
    with pytest.raises(BadInput, match="runs no command that starts a process on each"):
        trial.run(job, ladder.asked)
