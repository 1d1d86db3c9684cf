"""How a launch lets a forecast lead it, and when it waits for one. Trials and forecast are stood in for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.config.schema import Recipe
from launcher.engine import fit as engine_fit
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
    """Stands for ``lookahead.Lookahead``."""

    kept: bool
    takes_s: float

    def __init__(self, *_: object, **__: object) -> None:
        self.needs: dict[int, float | None] = {}
        self.first, self.why_not, self.by_trials, self.left, self.waited_s = None, (), False, False, 0.0
        self.begun_after: int | None = 0 if self.kept else None
        made.append(self)

    def __enter__(self) -> Foretold:
        return self

    def __exit__(self, *_: object) -> None:
        self.left = True

    def begin(self) -> None:
        if self.begun_after is None:
            self.begun_after = len(tried)

    def look(self, *, within_s: float = 0.0) -> bool:
        if self.begun_after is None or self.needs:
            return False
        self.waited_s = within_s
        if self.kept or self.takes_s <= within_s:
            self.needs = {index: 2 ** (FITS - 0.5 - index) for index in range(8)}
        return bool(self.needs)


made: list[Foretold] = []
tried: list[int] = []
"""Rungs as they were tried."""
FITS = 6
"""The first of eight rungs that fits, and is foreseen to."""


@pytest.fixture
def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Foretold, Fit]]:
    """Micro-batch ``asked`` down to 1, each half of the one before; rungs from ``fits`` on fit. Trials take a second."""

    def launch(fits: int = FITS, *, asked: int = 128, kept: bool = False, takes_s: float = 0.0) -> tuple[Foretold, Fit]:
        def run(job: Job, rung: Rung) -> trial.Trial:
            tried.append(rung.index)
            kind = Kind.FITS if rung.index >= fits else Kind.OUT_OF_MEMORY
            verdict = Verdict(kind=kind, phase=Phase.DONE if kind is Kind.FITS else Phase.TRAIN, why="", peak_bytes=2**20)
            return trial.Trial(rung=rung, verdict=verdict, report=TrialReport(), seconds=1.0, folder=tmp_path)

        made.clear()
        tried.clear()
        monkeypatch.setattr(lookahead, "Lookahead", Foretold)
        monkeypatch.setattr(Foretold, "kept", kept, raising=False)
        monkeypatch.setattr(Foretold, "takes_s", takes_s, raising=False)
        monkeypatch.setattr(trial, "run", run)
        spelled = {"micro_batch": "--b", "accumulation": "--a"}
        recipe = Recipe.model_validate(
            {
                "name": "mine",
                "ask": {"micro_batch": asked, "accumulation": 1},
                "trainer": {"adapter": "script", "args": {"command": ["python", "train.py"], "spelled": spelled}},
                "ladder": {"order": ("micro_batch",), "wheels": {"micro_batch": {"floor": 1}}},
                "trial": {"proof_timeout_s": 0},  # what comes before it is looked at
            }
        )
        adapter = ScriptAdapter(recipe)
        job = Job(adapter=adapter, ladder=ladder_of(adapter), budget=cpu_budget(), folder=RunFolder.create(tmp_path / "runs", "mine"))
        result = Fit(job=job)
        engine_fit.walk(result)
        assert result.status is Status.DONE and result.chosen is not None and result.chosen.rung.index == fits
        return made[0], result

    return launch


@pytest.mark.parametrize("fits", [0, 1])
def test_a_launch_that_fits_as_it_is_asked_or_at_the_next_rung_has_no_trace_made(launched: Callable[..., Any], fits: int) -> None:
    ahead, _ = launched(fits)
    assert tried == [0, 1][: fits + 1] and ahead.begun_after is None and ahead.left


def test_traces_are_made_once_two_rungs_have_failed_and_lead_then(launched: Callable[..., Any]) -> None:
    ahead, _ = launched(takes_s=0.5)
    assert ahead.begun_after == 2 and tried == [0, 1, 3, 5, 6], "the third trial is made meanwhile"


def test_where_the_walk_is_five_trials_at_most_no_trace_is_made(launched: Callable[..., Any]) -> None:
    ahead, _ = launched(4, asked=16)
    assert ahead.begun_after is None and tried[:3] == [0, 1, 3]


def test_a_trace_that_takes_longer_than_half_a_trial_is_not_waited_for(launched: Callable[..., Any]) -> None:
    ahead, _ = launched(takes_s=0.6)
    assert ahead.begun_after == 2 and not ahead.needs and ahead.waited_s == 0.5


def test_what_is_kept_leads_from_the_first_trial_on(launched: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (searching, trials):
        monkeypatch.setattr(module, "ability", lambda adapter, kind: None)  # a trainer whose rung 0 is told like any other
    launched(kept=True)
    assert tried == [5, 6], "the failure just above the answer closes what asks more"


def test_a_persons_own_words_are_tried_first_whatever_is_forecast(launched: Callable[..., Any]) -> None:
    launched(kept=True)
    assert tried == [0, 5, 6]
