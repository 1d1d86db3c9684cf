"""The pure parts of `make survival`: cases from seeds, outcomes from answers. No training is run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.survival import cases, play
from tests.helpers.places import ROOT


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
    from autofit_launcher.cli import main as cli

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
