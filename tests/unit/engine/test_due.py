"""Which optimizer steps a full run owes: by rung 0's trial, or by that of a rung that was proven to make as many."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autofit_launcher.common.report import SAID_ACCUMULATION, UPDATES, TrialReport
from autofit_launcher.engine.launch import Launch
from autofit_launcher.ladder.same_training import SameTraining, unproven
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.trainers.script.adapter import ScriptAdapter
from autofit_launcher.trial.trial import Trial
from tests.helpers import script

PROVEN, DIFFERS = SameTraining(), replace(SameTraining(), steps="differs by 3")


def fit(place: Path, same: SameTraining, reckoned: dict[int, int]) -> Launch:
    """Chosen is 16 x 2 of 32 x 1. ``reckoned``: rung -> steps in all, as the trainer told its trial."""
    job = script.job(ScriptAdapter(script.recipe(ask={"micro_batch": 32, "accumulation": 1}, floor=8)), place)
    trials = [
        Trial(
            rung=job.ladder.rungs[at], verdict=Verdict(kind=Kind.FITS, phase="train", why=""), seconds=1.0, folder=job.folder.trial(at),
            report=TrialReport(facts={UPDATES: steps, SAID_ACCUMULATION: job.ladder.rungs[at].accumulation}),
        )
        for at, steps in reckoned.items()
    ]  # fmt: skip
    return Launch(job=job, trials=trials, chosen=next(one for one in trials if one.rung.index == 1), sames={1: same})


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
