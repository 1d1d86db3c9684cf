"""How a launch goes on from what earlier ones measured. Trials are stood in for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autofit_launcher.common.report import Phase, TrialReport
from autofit_launcher.common.sizes import MIB
from autofit_launcher.engine import launch as engine
from autofit_launcher.engine.launch import Launch
from autofit_launcher.history.records import Status
from autofit_launcher.ladder.rungs import Rung
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.trainers.script.adapter import ScriptAdapter
from autofit_launcher.trial import trial
from autofit_launcher.trial.job import Job
from tests.helpers import script

FITS = 6
"""The first of eight rungs that fits."""


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[int]]:
    """Micro-batch 128 down to 1, each half of the one before. Gives the rungs as they were tried."""

    def once() -> list[int]:
        tried: list[int] = []

        def run(job: Job, rung: Rung) -> trial.Trial:
            tried.append(rung.index)
            kind, need = Kind.FITS if rung.index >= FITS else Kind.OUT_OF_MEMORY, job.budget.cap_bytes * rung.micro_batch // 3
            phase = Phase.DONE if kind is Kind.FITS else Phase.TRAIN
            verdict = Verdict(kind=kind, phase=phase, why="", peak_bytes=min(need, job.budget.cap_bytes + MIB))
            return trial.Trial(rung=rung, verdict=verdict, report=TrialReport(), seconds=1.0, folder=tmp_path)

        monkeypatch.setattr(trial, "run", run)
        trials = {"trial": {"proof_timeout_s": 0, "fresh": True}}  # what comes before it is looked at
        adapter = ScriptAdapter(script.recipe(ask={"micro_batch": 128, "accumulation": 1}, more=trials))
        result = Launch(job=script.job(adapter, tmp_path / "runs"))
        engine.walk(result)
        assert result.status is Status.DONE and result.chosen is not None and result.chosen.rung.index == FITS
        return tried

    return once


def test_what_was_measured_leads_from_the_first_trial_on(launch: Callable[[], list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScriptAdapter, "general", False)  # a trainer whose rung 0 is told like any other
    assert launch()[0] == 0
    assert launch() == [5, 6], "the failure just above the answer closes what asks more"


def test_a_persons_own_words_are_tried_first_whatever_was_measured(launch: Callable[[], list[int]]) -> None:
    launch()
    assert launch() == [0, 5, 6]
