"""How a launch lets a forecast lead it, and when it waits for one. Trials and forecast are stood in for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.config.schema import Recipe
from launcher.engine import fit as story
from launcher.engine import search as searching
from launcher.engine import trials
from launcher.engine.state import Fit, Status
from launcher.forecast import lookahead
from launcher.history.run_folder import RunFolder
from launcher.ladder.build import ladder_of
from launcher.ladder.rungs import Rung
from launcher.ladder.verdict import Kind, Verdict
from launcher.shared.report import Phase, TrialReport
from launcher.trainers.script.adapter import ScriptAdapter
from launcher.trainers.suite import cpu_budget
from launcher.trial import trial
from launcher.trial.job import Job


class Foretold:
    """Stands for ``lookahead.Ahead``."""

    ready: bool
    takes_s: float

    def __init__(self, *_: object, **__: object) -> None:
        self.parts: dict[int, float | None] = {}
        self.named, self.why_not, self.by_trials, self.left, self.waited_s = None, (), False, False, 0.0
        made.append(self)

    def __enter__(self) -> Foretold:
        return self

    def __exit__(self, *_: object) -> None:
        self.left = True

    def at_hand(self, *, within_s: float = 0.0) -> bool:
        self.waited_s = within_s
        return self.ready or 0 < self.takes_s <= within_s

    def look(self) -> None:
        self.parts = {0: 3.0, 1: 2.0, 2: 0.5, 3: 0.3}

    def learn(self, tried: object) -> None:
        pass


made: list[Foretold] = []


@pytest.fixture
def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[int], Fit]]:
    """Micro-batch 8 down to 1; rungs from ``first_that_fits`` on fit. (rungs as they were tried, the end)"""

    def launch(first_that_fits: int, *, at_hand: bool, takes_s: float = 0.0) -> tuple[list[int], Fit]:
        tried: list[int] = []

        def run(job: Job, rung: Rung) -> trial.Trial:
            tried.append(rung.index)
            kind = Kind.FITS if rung.index >= first_that_fits else Kind.OUT_OF_MEMORY
            verdict = Verdict(kind=kind, phase=Phase.DONE if kind is Kind.FITS else Phase.TRAIN, why="", peak_bytes=2**20)
            return trial.Trial(rung=rung, verdict=verdict, report=TrialReport(), seconds=1.0, folder=tmp_path)

        made.clear()
        monkeypatch.setattr(lookahead, "Ahead", Foretold)
        monkeypatch.setattr(Foretold, "ready", at_hand, raising=False)
        monkeypatch.setattr(Foretold, "takes_s", takes_s, raising=False)
        monkeypatch.setattr(trial, "run", run)
        spelled = {"micro_batch": "--b", "accumulation": "--a"}
        recipe = Recipe.model_validate(
            {
                "name": "mine",
                "ask": {"micro_batch": 8, "accumulation": 1},
                "trainer": {"adapter": "script", "args": {"command": ["python", "train.py"], "spelled": spelled}},
                "ladder": {"order": ("micro_batch",), "wheels": {"micro_batch": {"floor": 1}}},
                "trial": {"proof_timeout_s": 0},  # what comes before it is looked at
            }
        )
        adapter = ScriptAdapter(recipe)
        job = Job(adapter=adapter, ladder=ladder_of(adapter), budget=cpu_budget(), folder=RunFolder.create(tmp_path / "runs", "mine"))
        result = Fit(job=job)
        story.walk(result)
        return tried, result

    return launch


def test_a_launch_that_fits_as_it_is_asked_waits_for_no_forecast(launched: Callable[..., Any]) -> None:
    tried, result = launched(0, at_hand=False)
    assert tried == [0] and result.status is Status.DONE
    assert made[0].parts == {} and made[0].left, "nobody looked, and what was being made is left"


def test_while_a_forecast_is_made_the_asked_rung_is_tried_then_it_leads(launched: Callable[..., Any]) -> None:
    tried, result = launched(2, at_hand=False, takes_s=0.5)
    assert tried == [0, 1, 2] and result.status is Status.DONE and made[0].parts


def test_one_that_takes_longer_than_half_a_trial_is_not_waited_for(launched: Callable[..., Any]) -> None:
    tried, result = launched(2, at_hand=False, takes_s=0.6)
    assert tried == [0, 1, 3, 2] and result.chosen is not None and result.chosen.rung.index == 2
    assert made[0].parts == {} and made[0].waited_s == 0.5


def test_a_forecast_that_is_at_hand_leads_from_the_first_trial_on(launched: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (searching, trials):
        monkeypatch.setattr(module, "ability", lambda adapter, kind: None)  # a trainer whose rung 0 is told like any other
    tried, _ = launched(2, at_hand=True)
    assert tried == [1, 2], "the failure just above the answer closes what asks more"


def test_a_persons_own_words_are_tried_first_whatever_is_forecast(launched: Callable[..., Any]) -> None:
    tried, _ = launched(2, at_hand=True)
    assert tried == [0, 1, 2]
