"""A launch with trials that are stood in for: what it begins with, what its run owes, and that what it shows is written down."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from autofit_launcher.common.report import SAID_ACCUMULATION, UPDATES, TrialReport
from autofit_launcher.engine import launch as engine
from autofit_launcher.engine.launch import Launch
from autofit_launcher.ladder.same_training import COUNTED, END_UNSEEN, SameTraining, unproven
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.trainers.script.adapter import ScriptAdapter
from autofit_launcher.trial import proof
from autofit_launcher.trial.proof import Proof
from autofit_launcher.trial.trial import Trial
from tests.helpers import script
from tests.helpers.few import Launches

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
    found = fit(tmp_path, same, reckoned).due()
    assert (found.most if found is not None else None) == due


@pytest.mark.parametrize("known", [True, False])
def test_a_run_is_said_to_count_its_steps_only_where_it_is_known_how_many_are_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """A script's own constant made half of the steps at half the batch, under "the same training; its steps are counted in the run"."""
    same = replace(PROVEN, steps=f"{END_UNSEEN} in 4 optimizer steps{COUNTED}")
    monkeypatch.setattr(proof, "prove", lambda job, rung: Proof(same=same))
    launch = fit(tmp_path, PROVEN, {0: 40, 1: 40})
    launch.trials = [one if known else replace(one, report=TrialReport()) for one in launch.trials]
    engine._prove(launch, launch.job.ladder.rungs[1], launch.job)
    assert launch.same is not None and launch.same.counted is known and launch.same.steps.startswith(END_UNSEEN)


def test_what_is_shown_has_been_written_down(launches: Launches) -> None:
    written = list[list[int]]()

    def look(name: str) -> None:
        record = json.loads((launches.folder / "record.json").read_text(encoding="utf-8"))
        written.append([one["rung_index"] for one in record["trials"]] if name == "trial_ended" else [])

    launches.heard.hears = look
    fit = launches.fit()
    assert written == [[0], [0, 1], [], []] and launches.heard.names == ["trial_ended", "trial_ended", "fitted", "finished"]
    assert json.loads(fit.job.folder.record.read_text(encoding="utf-8")) == fit.as_record()
