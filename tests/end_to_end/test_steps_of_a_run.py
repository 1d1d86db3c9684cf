"""A run that really trains below the asked rung: its optimizer steps are counted, and held against those that the asked rung would make."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from autofit_launcher.adapter.log_line import ANOTHER_TRAINING
from autofit_launcher.cli.launch_view import Display
from autofit_launcher.common.report import PASS_SAMPLES, TrialReport
from autofit_launcher.engine import launch as engine
from autofit_launcher.engine.launch import Launch
from autofit_launcher.full_run import run as launch
from autofit_launcher.history.records import Status
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.trainers.script.adapter import ScriptAdapter
from autofit_launcher.trainers.script.native.steps import STRICT_STEPS, Outside
from autofit_launcher.trainers.suite import cpu_budget
from autofit_launcher.trial.trial import Trial
from tests.helpers import script
from tests.helpers.places import SCRIPTS

SCRIPT = SCRIPTS / "updates.py"


def ran(place: Path, *words: str, asked: Kind = Kind.OUT_OF_MEMORY, **lengths: int) -> tuple[Launch, str]:
    """The script at 16 x 2 where 32 x 1 are asked (unless those fit), launched as if its trials had said so; and what the screen showed."""
    ask, told = {"micro_batch": 32, "accumulation": 1}, {f"--{name}": n for name, n in lengths.items()}
    adapter = ScriptAdapter(script.recipe(sys.executable, str(SCRIPT), *words, ask=ask, floor=2, lengths=told))
    job = script.job(adapter, place / "runs", replace(cpu_budget(2**30), emulated=True))
    trials = [
        Trial(
            rung=job.ladder.rungs[at], verdict=Verdict(kind=kind, phase="train", why=""), seconds=1.0, folder=job.folder.trial(at),
            report=TrialReport(facts={PASS_SAMPLES: 256}),
        )
        for at, kind in enumerate((asked, Kind.FITS))
    ]  # fmt: skip
    chosen = next(one for one in trials if one.verdict.fits)
    screen = Display(Console(file=(place / "screen").open("w"), width=200))
    command = launch.native_command(job, chosen.rung)
    with (place / "out").open("wb") as out:
        fit = Launch(job=job, screen=screen, trials=trials, chosen=chosen, command=command, show=(out, out))
        engine.see_through(fit)
    fit.told().finished(fit)
    return fit, (place / "screen").read_text(encoding="utf-8")


def test_a_run_that_made_what_was_due_says_so(tmp_path: Path) -> None:
    fit, shown = ran(tmp_path, "--epochs", "2", epochs=2)
    assert fit.status is Status.DONE and fit.steps is not None and (fit.steps.made, fit.steps.line) == (16, "proven")
    assert "16, as due by --epochs 2 over 256 samples" in shown
    record = json.loads(fit.job.folder.record.read_text(encoding="utf-8"))
    assert [one["same_training"]["steps"] for one in record["trials"]] == ["proven", "proven"] and record["steps"]["due"] == [16, 16]


@pytest.mark.parametrize(
    ("epochs", "said"), [(2, "optimizer steps 16"), (4, "16; 32 would be --epochs 4 over 256 samples: the command's own")]
)
def test_steps_of_a_run_as_asked_are_said_and_are_its_own(tmp_path: Path, epochs: int, said: str) -> None:
    fit, shown = ran(tmp_path, "--epochs", "2", asked=Kind.FITS, epochs=epochs)
    assert fit.status is Status.DONE and fit.steps is None and said in " ".join(shown.split())
    assert ("would be" in shown) is (epochs == 4)


def test_a_run_that_counts_micro_batches_is_not_silently_done(tmp_path: Path) -> None:
    fit, shown = ran(tmp_path, "--steps", "12", "--kind", "counts_batches", steps=12)
    line = "differs by 6: the run made 6 optimizer steps, 12 to 13 are due by --steps 12"
    assert fit.steps is not None and fit.steps.otherwise and fit.steps.line == line
    assert fit.status is Status.OTHER_TRAINING and fit.exit_code == 5
    assert "not done: it is another training than asked" in shown and line in shown
    record = json.loads(fit.job.folder.record.read_text(encoding="utf-8"))
    assert record["steps"]["line"] == line
    assert record["trials"][1]["same_training"]["steps"] == record["attempts"][0]["same_training"]["steps"] == line


def test_a_run_that_no_longer_makes_the_large_batchs_update_is_not_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = Outside(2)
    said.steps = STRICT_STEPS
    said.trouble("batches are skipped")
    assert capsys.readouterr().err.strip() in SCRIPT.read_text(encoding="utf-8")
    fit, shown = ran(tmp_path, "--epochs", "2", "--kind", "no_longer", epochs=2)
    assert fit.status is Status.OTHER_TRAINING and fit.exit_code == 5
    assert "not done: it is another training than asked" in shown
    assert f"on its way {ANOTHER_TRAINING}: accumulate: from here" in " ".join(shown.split())
    for number in range(30):
        fit.deviated(f"has said something else {number} times")
    assert any(one.startswith(ANOTHER_TRAINING) for one in fit.attempts[-1].remarks)
