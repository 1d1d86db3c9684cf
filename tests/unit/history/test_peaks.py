"""Headroom by past runs: never less than they justify, more at once where one needed more, and said why."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.cli import main
from launcher.config.schema import DeviceRules, Recipe
from launcher.engine import prepare
from launcher.history import peaks
from launcher.history.peaks import ENOUGH, Pair, choose
from launcher.trainers.suite import cpu_budget

MIB = 2**20


def pair(ratio: float = 1.0, **more: object) -> Pair:
    known = {"trainer": "script", "device": "a processor", "recipe": "mine", "trial_peak_bytes": 1000 * MIB, "budget_bytes": 2000 * MIB}
    return Pair(**{**known, "run_peak_bytes": int(1000 * MIB * ratio), **more})  # type: ignore[arg-type]


def test_nothing_known_is_the_usual_headroom_and_says_how_many_runs_are_missing() -> None:
    choice = choose([])
    assert choice.headroom == 0.10 and f"0 of the {ENOUGH}" in choice.why
    assert choose([pair()] * (ENOUGH - 1)).headroom == 0.10


def test_enough_runs_justify_what_the_worst_of_them_wants_and_a_margin() -> None:
    runs = [pair(0.99)] * (ENOUGH - 1) + [pair(1.03)]
    assert choose(runs).headroom == pytest.approx(1 - 1 / 1.03 + 0.01)
    assert "103.0%" in choose(runs).why


def test_runs_that_all_stayed_below_their_trials_still_leave_the_least() -> None:
    assert choose([pair(0.9)] * 200).headroom == 0.02


def test_one_bad_run_counts_at_once() -> None:
    choice = choose([pair(1.0), pair(1.25)])
    assert choice.headroom == pytest.approx(0.2 + 0.01) and "125.0%" in choice.why and "2 of the" in choice.why


def test_a_run_that_died_of_memory_needed_its_whole_budget_at_least() -> None:
    assert pair(0.5, out_of_memory=True).ratio == 2.0
    assert choose([pair(0.5, out_of_memory=True)]).headroom == 0.5


def test_the_confidence_is_what_it_is_said_to_be() -> None:
    assert 0.95**ENOUGH < 0.05 <= 0.95 ** (ENOUGH - 1)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "autofit" / "peaks.jsonl"


def test_pairs_are_kept_by_trainer_and_device_and_what_can_not_be_read_is_passed_over(store: Path) -> None:
    peaks.keep(pair())
    peaks.keep(pair(device="another"))
    peaks.keep(pair(run_peak_bytes=0))  # not seen: tells nothing
    with store.open("a") as file:
        file.write('{"trainer": "torn\n{"unknown": 1}\n')
    assert len(peaks.known()) == 2
    (kept,) = peaks.of(peaks.known(), trainer="script", device="a processor")
    assert kept == replace(pair(), at=kept.at) and kept.at


def test_pairs_that_can_not_be_written_stop_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    peaks.keep(pair())
    assert peaks.known() == []


def test_a_launch_with_auto_takes_what_past_runs_on_its_device_justify_and_says_so(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def find(kind: str, *, headroom: float, **_: object) -> object:
        asked.append(headroom)
        return replace(cpu_budget(), name="a processor", headroom=headroom)

    monkeypatch.setattr(prepare.devices, "find", find)
    raw = {"name": "mine", "ask": {"micro_batch": 8}, "trainer": {"adapter": "script"}, "ladder": {"order": ("micro_batch",)}}
    recipe = Recipe.model_validate({**raw, "device": DeviceRules(kind="cpu", headroom="auto")})
    assert prepare._budget(recipe).headroom == 0.10
    for _ in range(ENOUGH):
        peaks.keep(pair(1.02))
    budget = prepare._budget(recipe)
    assert budget.headroom == asked[-1] == pytest.approx(1 - 1 / 1.02 + 0.01)
    assert "device.headroom=auto is 3.0%" in budget.notes[-1] and "largest of 59" in budget.notes[-1]


@pytest.mark.parametrize("said", [1.0, -0.1, True, "much", None])
def test_a_headroom_that_is_neither_a_fraction_nor_auto_is_refused(said: object) -> None:
    with pytest.raises(ValueError, match="less than 1"):
        DeviceRules(headroom=said)  # type: ignore[arg-type]


def test_runs_peaks_says_what_auto_would_be(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    peaks.keep(pair(1.25))
    (tmp_path / "runs").mkdir()
    from tests.helpers.run_folders import ended

    ended(tmp_path / "runs", "done")
    assert main.run(["runs", "--peaks", "--json", str(tmp_path / "runs")]) == 0
    (auto,) = json.loads(capsys.readouterr().out)["auto"]
    assert auto["trainer"] == "script" and auto["headroom"] == pytest.approx(0.21)
