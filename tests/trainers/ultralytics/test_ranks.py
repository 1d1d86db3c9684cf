"""Ultralytics on several cards: its words for them, its batch over them, and a trial of two ranks over gloo."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.adapter import RunStart
from tests.helpers import script

pytest.importorskip("ultralytics")

from autofit_launcher.adapter.build import ladder_of
from autofit_launcher.adapter.commands import Checkpoint, Command
from autofit_launcher.common.report import Phase, TrialReport
from autofit_launcher.common.sizes import MIB
from autofit_launcher.errors import BadInput
from autofit_launcher.ladder.rungs import Rung
from autofit_launcher.machine import devices, ranks
from autofit_launcher.trainers.suite import cpu_budget
from autofit_launcher.trainers.ultralytics import recognise
from autofit_launcher.trainers.ultralytics.adapter import UltralyticsAdapter
from autofit_launcher.trial import trial
from tests.conftest import write_yolo_dataset
from tests.helpers import yolo_recipe
from tests.helpers.places import ROOT


@pytest.fixture
def with_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "chosen_kind", lambda kind: "cuda" if kind == "auto" else kind)


@pytest.mark.parametrize(
    ("said", "section"),
    [
        *((device, {"kind": "cuda", "cards": [0, 1]}) for device in ("0,1", "cuda:0,1", [0, 1])),
        ("cpu", {"kind": "cpu"}), ("cuda:1", {"index": 1}), ([3], {"index": 3}), *((device, {}) for device in (0, None, "mps")),
    ],
)  # fmt: skip
def test_the_device_that_a_command_names_is_the_recipes(said: object, section: dict[str, object]) -> None:
    """On a machine without those cards, too: a training of two would be one of one, and a CPU's one of a card."""
    assert recognise._device(said) == section


@pytest.mark.usefixtures("with_cards")
def test_a_yolo_commands_batch_is_divided_over_its_cards() -> None:
    words = ["yolo", "detect", "train", "model=yolo11n.yaml", "data=d.yaml", "batch=64", "imgsz=1280", "device=0,1,2,3"]
    understood = recognise.understand(words)
    assert understood is not None and understood.ask["micro_batch"] == 16
    assert understood.device == {"kind": "cuda", "cards": [0, 1, 2, 3]} and "device" not in understood.args
    assert any("batch=64 over 4 cards" in str(belief) for belief in understood.beliefs)
    assert not any(belief.wheel == "accumulation" for belief in understood.beliefs), "64 images make a step of nbs=64"


@pytest.mark.usefixtures("with_cards")
def test_a_batch_of_which_ultralytics_would_drop_some_is_refused() -> None:
    with pytest.raises(BadInput, match="batch=30 over 4 cards: Ultralytics would train 28 of them") as refused:
        recognise.understand(["yolo", "train", "data=d.yaml", "batch=30", "device=0,1,2,3"])
    assert "batch=32" in refused.value.faults[0].cure


def test_the_batch_that_ultralytics_is_told_is_that_of_all_cards(yolo_dataset: Path, tmp_path: Path) -> None:
    recipe = yolo_recipe.make(yolo_dataset, ask={"micro_batch": 16}, device={"kind": "cuda", "cards": (0, 1)})
    adapter = UltralyticsAdapter(recipe)
    ladder = ladder_of(adapter)
    assert (ladder.effective_batch, ladder.asked.accumulation) == (64, 2), "nbs=64 over a batch of 32"
    for rung in ladder.rungs:
        args = adapter.arguments(rung, _two_cards())
        assert (args["batch"], args["nbs"], args["device"]) == (32, 64, "0,1")
    lower = next(rung for rung in ladder.rungs if rung.micro_batch == 8)
    command = adapter.command(lower, _two_cards(), folder=tmp_path / "run")
    assert "batch=32" in command.argv and json.loads(command.env["YOLO_EXACT"])["micro_batch"] == 8
    assert any(path.name == "yolo_ranks.py" for path in command.files)


def test_what_is_left_after_the_last_epoch_is_done_by_one_process(yolo_dataset: Path, tmp_path: Path) -> None:
    adapter = UltralyticsAdapter(yolo_recipe.make(yolo_dataset, ask={"micro_batch": 16}, device={"kind": "cuda", "cards": (0, 1)}))
    done = Checkpoint(path=tmp_path / "last.pt", done=2, unit="epochs", finished=True)
    lower = next(rung for rung in ladder_of(adapter).rungs if rung.micro_batch == 8)
    command = adapter.command(lower, _two_cards(), folder=tmp_path, start=RunStart(checkpoint=done, attempt=2))
    settings = json.loads(command.env["YOLO_EXACT"])
    assert command.ranks == 1 and settings["set"] == {"batch": 8, "device": "0"}, "images that were seen to fit, not the batch in parts"
    assert settings["trained"] == str(tmp_path / "run" / "weights" / "last.pt")


def _two_cards() -> devices.Budget:
    one = replace(cpu_budget(), kind="cuda")
    return replace(one, ranks=(one, one))


def test_several_processes_on_a_cpu_are_refused_and_so_is_rect(yolo_dataset: Path) -> None:
    on_cpu = yolo_recipe.make(yolo_dataset, device={"kind": "cpu", "cards": 2}, args={"rect": True})
    assert {fault.key for fault in UltralyticsAdapter(on_cpu).check()} == {"device.cards", "trainer.args.rect"}


class OverGloo(UltralyticsAdapter):
    """Its runs of several ranks know cards alone; nothing else of a trial is another."""

    def _exact(self, rung: Rung, args: Mapping[str, Any], *, folder: Path, set: Mapping[str, Any], **more: Any) -> Command:
        command = super()._exact(rung, args, folder=folder, set=set, **more)
        program, *words = command.argv
        return replace(command, argv=(program, str(ROOT / "tests" / "helpers" / "over_gloo.py"), *words))


@pytest.mark.slow
def test_a_trial_of_two_ranks_sees_both_and_their_batch(tmp_path: Path) -> None:
    data = write_yolo_dataset(tmp_path / "data", train=24, val=12)
    ask = {"model": "yolo11n.yaml", "micro_batch": 4, "accumulation": 2, "image_size": 160}
    adapter = OverGloo(yolo_recipe.make(data, ask=ask, device={"kind": "cpu", "cards": 2, "memory": 1200 * MIB}))
    budget = ranks.budget_of(2, "cpu", memory_bytes=1200 * MIB, headroom=0.1)
    job = script.job(adapter, tmp_path, budget)
    assert job.ladder.effective_batch == 16
    tried = trial.run(job, job.ladder.asked)
    assert tried.verdict.fits, tried.verdict
    uses = {use.phase: use for use in tried.report.uses}
    assert list(uses)[-1] == Phase.RESUME and uses[Phase.RESUME].batches >= 1
    assert "Resuming training" in (tried.folder / "resumed" / "stdout.log").read_text(), "rank 0 tells it"
    assert tried.report == TrialReport.read(tried.folder / "report.json")
    for place in (tried.folder, tried.folder / "resumed"):
        reports = [TrialReport.read(place / "ranks" / rank / "report.json") for rank in ("0", "1")]
        for report in reports:
            assert report is not None and report.phase == Phase.DONE and report.facts["world_size"] == 2
            assert (report.observed["micro_batch"], report.observed["val_micro_batch"]) == (4, 8)
    for path in (tried.folder / "ranks").glob("*/report.json"):
        report = TrialReport.read(path)
        assert report is not None and report.validation_batches >= 1 and report.train_again_batches >= 1
