"""What the search is told: parts of the cap by rung, and what a real trial teaches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.adapter.tracing import Ask
from launcher.config.schema import Recipe
from launcher.forecast import lookahead, trace_store
from launcher.forecast.forecaster import Forecaster
from launcher.ladder import build
from launcher.ladder.extrapolation import Measured
from launcher.ladder.rungs import Rung
from launcher.shared.trace import Trace
from launcher.trainers.script.adapter import ScriptAdapter
from launcher.trainers.suite import cpu_budget
from tests.helpers.kept_traces import adapter, keep_traces


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("YOLO_OFFLINE", "true")


def test_lower_rungs_need_a_smaller_part_of_the_cap() -> None:
    one = adapter()
    ladder = build.ladder_of(one)
    keep_traces(one, ladder, cuda=False)
    parts = lookahead.needs(lookahead.forecaster_for(one, ladder, cpu_budget()), 2**30)
    batches = [parts[rung.index] for rung in ladder.rungs if not rung.values["checkpointing"]]
    assert None not in batches and batches == sorted(batches, key=lambda part: -(part or 0)) and len(batches) == 6


def test_no_trace_is_asked_for_below_the_first_rung_that_is_foreseen_to_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    one = adapter()
    ladder = build.ladder_of(one)
    keep_traces(one, ladder, cuda=False)
    asked: list[str] = []
    plain = trace_store.traces

    def of(asks: list[Ask], **more: Any) -> dict[str, Trace | str]:
        asked.extend(ask.key for ask in asks)
        return plain(asks, **more)

    monkeypatch.setattr(trace_store, "traces", of)
    roomy = lookahead.needs(lookahead.forecaster_for(one, ladder, cpu_budget()), 2**34)
    checkpointed = {rung.index for rung in ladder.rungs if rung.values["checkpointing"]}
    assert len(set(asked)) == 1
    assert {index for index, part in roomy.items() if part is None} == checkpointed
    tight = lookahead.needs(lookahead.forecaster_for(one, ladder, cpu_budget()), 2**24)
    assert len(set(asked)) == 2 and None not in tight.values()


def test_on_a_card_what_goes_through_under_the_cap_counts_and_not_what_is_reserved_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    one = adapter()
    ladder = build.ladder_of(one)
    keep_traces(one, ladder)
    budget = replace(cpu_budget(), kind="cuda", name="NVIDIA Something 9000", total_bytes=2**36)
    peaks = lookahead.needs(lookahead.forecaster_for(one, ladder, budget), 1)
    cap = int((peaks[1] or 0) / 1.1)
    asked: list[int] = []

    def goes(self: Forecaster, rung: Rung, cap_bytes: int) -> tuple[bool, bool]:
        asked.append(rung.index)
        return rung.index == 1, True

    monkeypatch.setattr(Forecaster, "goes_through", goes)
    found = lookahead.needs(lookahead.forecaster_for(one, ladder, budget), cap)
    assert asked == [1], "rung 0 is far too large, and below the one that goes through nothing is asked"
    assert found[1] == 1.0 and (found[0] or 0) > lookahead.EDGE
    monkeypatch.setattr(Forecaster, "goes_through", lambda *_: (False, False))
    assert (lookahead.needs(lookahead.forecaster_for(one, ladder, budget), int((peaks[1] or 0) * 1.1))[1] or 0) > 1.0


def test_a_launch_names_the_first_rung_that_is_foreseen_to_fit_and_says_news_once() -> None:
    one = adapter()
    ladder = build.ladder_of(one)
    keep_traces(one, ladder, cuda=False)
    budget = cpu_budget()
    peaks = lookahead.needs(lookahead.forecaster_for(one, ladder, budget), 1)
    ahead = lookahead.Lookahead(one, ladder, replace(budget, cap_bytes=int(peaks[2] or 0) + 1))
    assert not ahead.needs and ahead.look() and not ahead.look(), "its trace is kept: nobody has to begin it"
    assert ahead.first is not None and ahead.first.index == 2 and not ahead.why_not


def test_a_trainer_that_cannot_be_traced_has_no_forecast_and_says_why() -> None:
    script = Recipe.model_validate(
        {
            "name": "mine",
            "ask": {"micro_batch": 8},
            "trainer": {
                "adapter": "script",
                "args": {"command": ["python", "train.py"], "spelled": {"micro_batch": "--b", "accumulation": "--a"}},
            },
            "ladder": {"order": ("micro_batch",)},
        }
    )
    one = ScriptAdapter(script)
    ahead = lookahead.Lookahead(one, build.ladder_of(one), cpu_budget())
    assert not ahead.look(), "nothing was begun"
    ahead.begin()
    assert ahead.look() and ahead.first is None and set(ahead.needs.values()) == {None} and "can't be traced" in ahead.why_not[0]


def test_no_trace_is_made_before_it_is_begun_and_none_that_is_being_made_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    one = adapter()
    ladder = build.ladder_of(one)
    ahead = lookahead.Lookahead(one, ladder, cpu_budget())
    assert not ahead.look(within_s=60) and not ahead.needs
    monkeypatch.setattr(trace_store.Making, "over", False)
    keep_traces(one, ladder, cuda=False)
    ahead.begin()
    assert not ahead.look(within_s=0.1) and not ahead.needs


def test_where_earlier_trials_are_known_no_trace_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    one = adapter()
    ladder = build.ladder_of(one)
    keep_traces(one, ladder, cuda=False)
    seen = [Measured(rung=ladder.rungs[0], need=2.4, fits=False, failed_in="train"), Measured(rung=ladder.rungs[2], need=0.7, fits=True)]
    with monkeypatch.context() as patch:
        patch.setattr(trace_store.Making, "over", False)
        for too_little in ([], seen[:1]):
            assert not lookahead.Lookahead(one, ladder, cpu_budget(), earlier=too_little).look()
        ahead = lookahead.Lookahead(one, ladder, cpu_budget(), earlier=seen)
        assert ahead.look(within_s=600) and not ahead.look()
    assert ahead.needs[2] == 0.7 and (ahead.needs[0] or 0) >= 2.4 and ahead.first is not None and 0 < ahead.first.index <= 2
    by_trials = ahead.needs
    assert ahead.look() and ahead.needs != by_trials and ahead.needs[2] == 0.7, "the trace that has come meanwhile is held to them"


def test_a_trace_that_is_there_is_held_to_what_earlier_trials_measured() -> None:
    one = adapter()
    ladder = build.ladder_of(one)
    keep_traces(one, ladder, cuda=False)
    budget = cpu_budget()
    needs = lookahead.needs(lookahead.forecaster_for(one, ladder, budget), budget.cap_bytes)
    measured = 1.3 * (needs[2] or 0)
    ahead = lookahead.Lookahead(one, ladder, budget, earlier=[Measured(rung=ladder.rungs[2], need=measured, fits=True)])
    ahead.look()
    assert ahead.needs[2] == pytest.approx(measured) and ahead.needs[1] == pytest.approx(1.3 * (needs[1] or 0))


def test_a_card_that_the_catalogue_does_not_know_is_taken_as_it_is() -> None:
    card = lookahead.card_of(replace(cpu_budget(), kind="cuda", name="NVIDIA Something 9000", total_bytes=2**34))
    assert card.usable_bytes == 2**34 and card.lean == 0.5
