"""launch=slurm where there is no SLURM; and what a job that is warned, or starts again, makes of the launch it finds."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autofit_launcher.cli import main, submit
from autofit_launcher.config import recipe
from autofit_launcher.config.recipe import Draft, Provenance
from autofit_launcher.engine import launch, prepare
from autofit_launcher.errors import BadInput
from autofit_launcher.history import owner, runs, submission
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.ladder.rungs import Ladder
from autofit_launcher.machine import slurm
from autofit_launcher.trainers.suite import cpu_budget
from autofit_launcher.trial.job import Job
from tests.helpers import idle
from tests.helpers.idle import place as place
from tests.helpers.run_folders import tell

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def draft(**changed: Any) -> Draft:
    return recipe.checked({"name": "idle", **idle.SAID, **changed}, Provenance())


@pytest.mark.parametrize("verb", ["train", "fit"])
def test_without_slurm_it_is_refused_in_words_and_nothing_is_left(
    place: Path, verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(place))
    assert main.run([verb, "recipe=idle", "launch=slurm"]) == 1
    assert "there is no sbatch here, so no job can be handed to SLURM" in capsys.readouterr().err and not (place / "runs").exists()


def test_without_submitit_it_says_what_to_install(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sbatch", "squeue", "srun"):
        (place / name).write_text("#!/bin/sh\n")
        (place / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(place))
    monkeypatch.setattr(sys, "path", [str(place)])
    monkeypatch.setattr(sys, "meta_path", [one for one in sys.meta_path if "Path" in str(one)])
    (fault,) = slurm.faults()
    assert "submitit, which is not installed" in fault.found and "pip install submitit" in fault.cure


@pytest.mark.parametrize(("words", "said"), [
    (("trial", "recipe=idle", "rung=0"), "`autofit trial` runs here"),
    (("train", "recipe=yolo_demo", "device=cuda", "device.cards=all"), "launch.slurm.gpus: device.cards=all doesn't say how many cards"),
    (("train", "-m", "recipe=idle", "ask.micro_batch=8,16", "hydra/launcher=submitit_slurm"), "each launch of a multirun is a job"),
])  # fmt: skip
def test_what_no_job_can_be_made_of_is_refused(place: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*words, "launch=slurm"]) == 1 and said in capsys.readouterr().err and not (place / "runs").exists()


def test_a_new_launch_gets_a_folder_another_job_goes_into_it_and_of_a_job_that_is_refused_nothing_is_left(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = iter(["11", "12"])
    monkeypatch.setattr(slurm, "faults", list)
    monkeypatch.setattr(slurm, "submit", lambda *of, **more: next(jobs))
    monkeypatch.setattr(slurm, "job_state", lambda job, *, name: ("", ""))
    assert main.run(["train", "recipe=idle", "launch=slurm"]) == 0
    (folder,) = (place / "runs" / "autofit").iterdir()
    assert main.run(["resume", str(folder)]) == 0
    assert submission.read(folder).job == "12" and main.run(["train", "recipe=idle", "launch=slurm"]) == 1  # type: ignore[union-attr]
    assert list(folder.parent.iterdir()) == [folder]


def test_what_a_job_asks_for_can_be_said_anew_when_a_run_goes_on(place: Path) -> None:
    (place / "recipe.yaml").write_text(recipe.as_yaml(draft(launch={"kind": "slurm"}).recipe))  # type: ignore[arg-type]
    said = prepare.draft_of(place, ["launch.slurm.time=90", "launch.slurm.sbatch.qos=long", "launch.kind=here"]).recipe
    assert said is not None and said.launch.kind == "here" and (said.launch.slurm.time, said.launch.slurm.sbatch) == (90, {"qos": "long"})
    with pytest.raises(BadInput, match=r"launch\.slurm\.tiem"):
        prepare.draft_of(place, ["launch.slurm.tiem=90"])


def test_a_job_that_starts_again_finds_the_launch_that_it_has_begun_and_no_other(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    mine = draft()
    assert mine.recipe is not None
    folder = RunFolder.create(place / "runs" / "autofit", "idle")
    folder.replace(folder.recipe, recipe.as_yaml(mine.recipe))
    adapter: Any = SimpleNamespace(recipe=mine.recipe)
    job = Job(adapter=adapter, ladder=Ladder(wheels=(), rungs=(), effective_batch=0), budget=cpu_budget(), folder=folder)
    seen = replace(job, adapter=SimpleNamespace(recipe=mine.recipe.model_copy(update={"ask": {"micro_batch": 3}})))  # type: ignore[arg-type]
    with owner.owning(folder.path):
        tell(folder, status="running")
        launch._take(launch.Launch(job=job), seen)  # its first trial showed another batch
    assert submit.begun_before(mine) is None, "a script that says the same twice means two launches"
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    found = submit.begun_before(mine)
    assert found is not None and found.resolve() == folder.path
    assert submit.begun_before(draft(ask={"micro_batch": 16})) is None
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    assert submit.begun_before(mine) is None


@pytest.mark.parametrize(("begun_from", "gained"), [([], False), ([None], True), ([1.0, 1.0, 1.0], False), ([1.0, 1.0, 2.0], True)])
def test_a_job_is_queued_again_only_where_its_starts_gain_something(tmp_path: Path, begun_from: list[float | None], gained: bool) -> None:
    folder = RunFolder.create(tmp_path, "demo")
    with owner.owning(folder.path):
        saved = [{"checkpoint": {"path": "a.pt", "done": done, "unit": "epochs"} if done else None} for done in begun_from]
        tell(folder, status="interrupted", attempts=saved)
    assert submit.gained(runs.run_in(folder.path)) is gained


def test_a_trial_that_came_to_its_end_is_a_gain(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "demo")
    tell(folder, status="trying")
    assert not submit.gained(runs.run_in(folder.path))
    folder.replace_json(folder.trial(1) / "verdict.json", {})
    assert submit.gained(runs.run_in(folder.path))
