"""Which optimizer steps a full run owes: by rung 0's trial, or by that of a rung that was proven to make as many."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from launcher.adapter.build import ladder_of
from launcher.config.schema import LadderRules, Recipe, TrainerRules, WheelRule
from launcher.engine.state import Fit
from launcher.history.run_folder import RunFolder
from launcher.ladder.same_training import SameTraining, unproven
from launcher.ladder.verdict import Kind, Verdict
from launcher.shared.report import SAID_ACCUMULATION, UPDATES, TrialReport
from launcher.trainers.script.adapter import ScriptAdapter
from launcher.trainers.suite import cpu_budget
from launcher.trial.job import Job
from launcher.trial.trial import Trial

PROVEN, DIFFERS = SameTraining(), replace(SameTraining(), steps="differs by 3")


def fit(place: Path, same: SameTraining, reckoned: dict[int, int]) -> Fit:
    """Chosen is 16 x 2 of 32 x 1. ``reckoned``: rung -> steps in all, as the trainer told its trial."""
    spelled = {"micro_batch": "--batch-size", "accumulation": "--accum"}
    recipe = Recipe(
        name="test", ask={"micro_batch": 32, "accumulation": 1},
        trainer=TrainerRules(adapter="script", args={"command": ["python", "train.py"], "spelled": spelled}),
        ladder=LadderRules(order=("micro_batch",), wheels={"micro_batch": WheelRule(floor=8)}),
    )  # fmt: skip
    adapter = ScriptAdapter(recipe)
    job = Job(adapter=adapter, ladder=ladder_of(adapter), budget=cpu_budget(2**30), folder=RunFolder.create(place, "test"))
    trials = [
        Trial(
            rung=job.ladder.rungs[at], verdict=Verdict(kind=Kind.FITS, phase="train", why=""), seconds=1.0, folder=job.folder.trial(at),
            report=TrialReport(facts={UPDATES: steps, SAID_ACCUMULATION: job.ladder.rungs[at].accumulation}),
        )
        for at, steps in reckoned.items()
    ]  # fmt: skip
    return Fit(job=job, trials=trials, chosen=next(one for one in trials if one.rung.index == 1), sames={1: same})


@pytest.mark.parametrize(
    ("same", "reckoned", "due"),
    [
        (PROVEN, {0: 40, 1: 41}, 40),
        (PROVEN, {1: 41}, 41),  # a search led by a forecast may pass rung 0 by
        (unproven("no time was left"), {0: 40, 1: 41}, 40),
        (unproven("no time was left"), {1: 41}, None),
        (DIFFERS, {0: 40, 1: 37}, None),
    ],
)
def test_steps_are_due_by_the_asked_rung_or_by_one_that_makes_as_many(
    tmp_path: Path, same: SameTraining, reckoned: dict[int, int], due: int | None
) -> None:
    found = fit(tmp_path, same, reckoned).due
    assert (found.most if found is not None else None) == due
