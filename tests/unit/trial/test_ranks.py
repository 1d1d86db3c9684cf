"""Trials of several ranks: one that stands still, and an adapter whose trial starts none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from launcher.config.schema import LadderRules, Recipe, TrainerRules
from launcher.errors import BadInput
from launcher.history.run_folder import RunFolder
from launcher.ladder.rungs import Wheel, build
from launcher.ladder.verdict import Verdict
from launcher.shared.ending import Ending
from launcher.shared.report import TrialReport
from launcher.trainers.suite import cpu_budget
from launcher.trial import trial
from launcher.trial.job import Job
from launcher.trial.judge import Needs, judge
from tests.helpers.stand_in import StandIn

RUNG = build([Wheel(name="micro_batch", values=(8,))], effective_batch=16, world_size=2).asked


def one(said: TrialReport, how: Ending) -> Verdict:
    return judge(said, how, rung=RUNG, needs=Needs(optimizer_steps=2, validation_batches=1))


def test_an_adapter_whose_trial_runs_no_command_is_refused_on_several_cards(tmp_path: Path) -> None:
    budget = cpu_budget()
    rules = {"trainer": TrainerRules(adapter="stand-in"), "ladder": LadderRules(order=("micro_batch",))}
    adapter = StandIn(Recipe(name="of-a-plug-in", ask={"micro_batch": 8}, **rules))
    ladder = build([Wheel(name="micro_batch", values=(8,))], effective_batch=16, world_size=2)
    job = Job(adapter=adapter, ladder=ladder, budget=replace(budget, ranks=(budget, budget)), folder=RunFolder.create(tmp_path, "case"))
    with pytest.raises(BadInput, match="runs no command that starts a process on each"):
        trial.run(job, ladder.asked)
