"""The pure parts of `make survival`: cases from seeds, outcomes from answers, the table from rows. No training is run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.survival import __main__ as survival
from benchmarks.survival import cases, play, table
from tests.helpers.places import ROOT

MIB = 2**20


def row(seed: int, status: str = "done", **more: Any) -> dict[str, Any]:
    """A row as ``play`` makes it."""
    usual = {
        "seed": seed, "generator": cases.GENERATOR, "trainer": "yolo", "task": "detect", "headroom": 0.1, "factor": 1.02, "status": status,
        "budget_bytes": 400 * MIB, "trial_peak_bytes": 300 * MIB, "run_peak_bytes": 303 * MIB, "peak_source": "record", "lost": 0,
        "commit": "abc1234", "versions": {"torch": "2.15.0"}, "machine": {"cores": 2, "memory_gib": 24.0}, "seconds": 60.0,
    }  # fmt: skip
    return {**usual, **more}


def ended(returncode: int | None = 0, **answer: Any) -> play.Ended:
    return play.Ended(returncode=returncode, answer=answer, out="", err="Traceback: of autofit", seconds=1.0)


def test_ten_seeds_in_a_row_hold_every_trainer_and_every_yolo_task() -> None:
    for first in (0, 7, 40):
        ten = [cases.make(seed) for seed in range(first, first + 10)]
        assert {case.trainer for case in ten} == {"yolo", "speech", "text", "script"}
        assert {case.task for case in ten} >= {"detect", "segment", "pose", "obb"}
        assert any(case.trainer == "yolo" and case.command for case in ten)


def accepted(case: cases.Case, folder: Path) -> bool:
    """Whether autofit makes a ladder of the case. Its data isn't there, and isn't looked at."""
    from launcher.cli import main as cli

    places = {"data": "d", "python": sys.executable, "here": str(play.HERE), "root": str(ROOT)}
    (folder / "recipes").mkdir(parents=True)
    for name, what in case.files.items():
        (folder / name).write_text(yaml.safe_dump(play.filled(what, places)))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        if case.recipe is None:
            assert cli.run(["init", "--", *play.filled(case.command, places)]) == 0
        else:
            text = yaml.safe_dump(play.filled(case.recipe, places), sort_keys=False)
            (folder / "recipes" / "case.yaml").write_text(f"# @package _global_\n{text}")
        name = next((folder / "recipes").glob("*.yaml")).stem
        return cli.run(["ladder", f"recipe={name}", "device=cpu", *case.overrides]) == 0


@pytest.mark.parametrize("seed", range(10))
def test_autofit_accepts_what_is_asked(seed: int, tmp_path: Path) -> None:
    """Words of ours that autofit doesn't know would make cases that prove nothing."""
    assert accepted(cases.make(seed), tmp_path / "case"), cases.make(seed)


@pytest.mark.parametrize("name", cases.SCRIPTS)
def test_autofit_understands_every_script(name: str, tmp_path: Path) -> None:
    case = next(case for case in map(cases.make, range(130)) if case.task == name)
    assert accepted(case, tmp_path / "case"), case


@pytest.mark.parametrize(("exit_status", "run", "said", "peak", "status"), [
    (0, {"returncode": 0}, [], 10, "done"), (0, {"returncode": 0}, ["Unable to allocate 18.6 MiB"], 10, "done"),
    (5, {"returncode": 1}, ["Unable to allocate 18.6 MiB"], 10, "died"), (5, {"returncode": -11}, [], 10, "died"),
    (5, {"returncode": 1}, [], 99, "died"), (5, {"returncode": 1}, [], 10, "failed"), (None, {"returncode": 0}, [], 10, "timeout"),
])  # fmt: skip
def test_a_death_is_told_by_its_words_its_signal_or_its_cap(
    exit_status: int | None, run: dict[str, Any], said: list[str], peak: int, status: str
) -> None:
    assert play.outcome(ended(exit_status, status="failed"), run, peak=peak, budget=100, said=said) == status


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Plays nothing: every case is done at once. The seeds that were asked for."""
    seeds: list[int] = []

    def done(case: cases.Case, place: play.Table, **_: Any) -> dict[str, Any]:
        seeds.append(case.seed)
        return row(case.seed, "no_rung_fits" if case.seed == 4 else "done")

    monkeypatch.setattr(play, "play", done)
    return seeds


def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *words: str) -> int:
    places = ("--data", tmp_path / "data.jsonl", "--table", tmp_path / "table.md", "--folder", tmp_path / "cases")
    monkeypatch.setattr(sys, "argv", ["survival", *map(str, places), *words])
    return survival.main()


def test_slices_go_on_where_the_last_one_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, played: list[int]) -> None:
    assert start(monkeypatch, tmp_path, "--slice", "3") == 0
    assert start(monkeypatch, tmp_path, "--slice", "2") == 0
    assert sorted(played) == [0, 1, 2, 3, 4]
    assert "4 runs, 0 deaths" in (tmp_path / "table.md").read_text()


@pytest.mark.parametrize(
    ("deaths", "runs", "low", "high"),
    # scipy.stats.beta.ppf(0.025, deaths, runs - deaths + 1), beta.ppf(0.975, deaths + 1, runs - deaths)
    [(0, 10, 0.0, 0.3085), (0, 150, 0.0, 0.0243), (6, 17, 0.1421, 0.6167), (4, 15, 0.0779, 0.5510), (5, 5, 0.4782, 1.0), (0, 0, 0.0, 1.0)],
)
def test_the_interval_is_clopper_and_pearsons(deaths: int, runs: int, low: float, high: float) -> None:
    assert table.interval(deaths, runs) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_the_page_lists_each_death_with_its_words_and_counts_what_was_not_launched_apart() -> None:
    words = ["first", "DefaultCPUAllocator: can't allocate | memory"]
    rows = [
        row(0), row(1, "died", task="pose", run_peak_bytes=400 * MIB, words=words, lost=None),
        row(2, "failed", words=["KeyError"], lost=None), row(3, lost=4), row(5, "no_rung_fits", run_peak_bytes=None), row(6, "refused"),
        row(7, "no_rung_fits"),
    ]  # fmt: skip
    page = table.document(rows)
    assert "**4 runs, 1 deaths of memory**" in page and "1 runs failed of something else" in page
    assert "1 finished runs lost something to memory (figures, mostly), 4 messages in all" in page
    assert "| 1 | yolo, pose | 400 MiB | 360 MiB | 300 MiB | 400 MiB | DefaultCPUAllocator: can't allocate \\| memory |" in page
    assert "| yolo, pose | 1 | 1 | 0 | 0 | 1.333 | 1.333 | 1.333 | 1.333 |" in page
    assert "| no rung fits | 2 | 5, 7 |" in page and "| refused, with a cure | 1 | 6 |" in page
