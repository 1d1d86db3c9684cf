"""A person's own command gives up nothing unasked: what turns by itself, what --give-up adds, and what is said where nothing fits."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from autofit_launcher.adapter.recognised import Understood, giving_up
from autofit_launcher.cli import main
from autofit_launcher.cli.launch_view import Display
from autofit_launcher.common.report import PhaseUse, TrialReport
from autofit_launcher.common.sizes import MIB
from autofit_launcher.engine import launch as engine
from autofit_launcher.engine.launch import Launch
from autofit_launcher.errors import BadInput
from autofit_launcher.history.records import Status
from autofit_launcher.ladder.rungs import Rung
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.trainers.script.adapter import ScriptAdapter
from autofit_launcher.trainers.suite import cpu_budget
from autofit_launcher.trial import trial
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.trial import Trial
from tests.helpers import script

FLAGS = """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=4)
p.add_argument("--val-batch-size", type=int, default=4)
p.add_argument("--accum", type=int, default=1)
p.add_argument("--img-size", type=int, default=64)
p.add_argument("--grad-checkpointing", action="store_true")
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(FLAGS)
    return tmp_path


def order(here: Path, *words: str) -> list[str]:
    assert main.run(["init", *words, "--", "python", "train.py"]) == 0
    recipe = here / "recipes" / "train.yaml"
    text = recipe.read_text()
    recipe.unlink()
    (line,) = [line for line in text.splitlines() if line.strip().startswith("order:")]
    return [word.strip('" ') for word in line.partition("[")[2].partition("]")[0].split(",")]


def test_what_makes_another_training_turns_only_where_the_person_says_so(here: Path) -> None:
    free = ["val_micro_batch", "micro_batch", "checkpointing"]
    assert order(here) == free
    assert order(here, "--give-up", "image_size") == order(here, "--give-up=image_size") == [*free, "image_size"]


def test_a_yolo_command_keeps_its_image_size_and_its_model() -> None:
    ladder = {"order": ["micro_batch", "image_size", "checkpointing", "multi_scale", "model"]}
    ask = {"micro_batch": 4, "image_size": 640, "checkpointing": False, "model": "yolo11n.pt"}
    yolo = Understood(adapter="ultralytics", words=("yolo",), ask=ask, ladder=ladder)
    assert giving_up(yolo, []).ladder["order"] == ["micro_batch", "checkpointing"]
    assert giving_up(yolo, ["model"]).ladder["order"] == ["micro_batch", "checkpointing", "model"]
    with pytest.raises(BadInput, match=r"'image' is nothing that this command could give up. .*It has image_size, model"):
        giving_up(yolo, ["image"])


def test_one_flag_has_one_meaning_and_one_without_its_value_is_told(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.run(["run", "--give-up", "--", "python", "train.py"]) == 1
    assert "--give-up has no value. See autofit run --help." in capfd.readouterr().err
    for flag, key in (("--allow-batch", "keep_batch"), ("--allow-difference", "keep_update")):
        main.run(["run", flag, "--cfg", "job", "--", "python", "train.py"])
        assert f"{key}: false" in capfd.readouterr().out


@pytest.mark.parametrize(("mib", "fits"), [(25, "is estimated to fit"), (3, "nothing tells whether it would be enough")])
def test_where_nothing_fits_the_words_that_would_let_more_turn_are_said(
    here: Path, monkeypatch: pytest.MonkeyPatch, mib: int, fits: str
) -> None:
    """Trials need 10 MiB, and 20 for each picture of 64 px."""
    spelled = {"micro_batch": "--batch-size", "accumulation": "--accum", "image_size": "--img-size"}
    ask = {"micro_batch": 4, "accumulation": 1, "image_size": 64}
    one = ScriptAdapter(script.recipe(ask=ask, spelled=spelled, says=ask))
    budget = replace(cpu_budget(), budget_bytes=mib * MIB, cap_bytes=mib * MIB, ceiling_bytes=mib * MIB)

    def run(job: Job, rung: Rung) -> Trial:
        need = (10 + 20 * rung.micro_batch) * MIB
        uses = (PhaseUse(phase="train", seconds=1.0, reserved_bytes=need),)
        verdict = Verdict(kind=Kind.OUT_OF_MEMORY, phase="train", why="", source="measured", peak_bytes=need)
        report = TrialReport(uses=uses, cap_bytes=mib * MIB, observed={"micro_batch": rung.micro_batch})
        return Trial(rung=rung, verdict=verdict, report=report, seconds=1.0, folder=here)

    monkeypatch.setattr(trial, "run", run)
    result = Launch(job=script.job(one, here / "runs", budget))
    engine.walk(result)
    assert result.status is Status.NO_RUNG_FITS
    Display(Console(file=(out := io.StringIO()), width=400)).fitted(result)
    (line,) = [line for line in out.getvalue().splitlines() if "--give-up" in line]
    assert "autofit run --give-up image_size -- ... (ladder.order=[micro_batch,image_size] in a recipe)" in line and fits in line
