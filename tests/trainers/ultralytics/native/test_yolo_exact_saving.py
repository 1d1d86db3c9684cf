"""yolo_exact: a checkpoint is written whole or not at all, and held once by a run that goes on from it."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ultralytics")
import torch
from ultralytics import YOLO
from ultralytics.engine.trainer import BaseTrainer

from launcher.trainers.ultralytics.native import exact_trainer


class Saves(BaseTrainer):  # type: ignore[misc]
    """Saves as Ultralytics does (engine/trainer.py, 8.4.190)."""

    def __init__(self, place: Path) -> None:
        self.wdir, self.last, self.best = place, place / "last.pt", place / "best.pt"

    def save_model(self) -> bool:
        data = bytes(100_000)
        self.last.write_bytes(data)
        self.best.write_bytes(data)
        (self.wdir / "epoch3.pt").write_bytes(data)
        return True


@pytest.fixture
def trainer(tmp_path: Path) -> Any:
    made = object.__new__(exact_trainer.exact(Saves))
    Saves.__init__(made, tmp_path)
    return made


def test_a_checkpoint_that_finds_the_disk_full_leaves_the_one_before(trainer: Any, tmp_path: Path) -> None:
    (tmp_path / "last.pt").write_bytes(b"of the epoch before")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            trainer.save_model()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / "last.pt").read_bytes() == b"of the epoch before" and [path.name for path in tmp_path.iterdir()] == ["last.pt"]
    assert type(trainer.last) is type(tmp_path)


def test_all_that_is_saved_is_there(trainer: Any, tmp_path: Path) -> None:
    assert trainer.save_model()
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == dict.fromkeys(("last.pt", "best.pt", "epoch3.pt"), 100_000)


def test_what_a_model_has_loaded_is_let_go_where_its_trainer_loads_it_anew(exact: Any) -> None:
    model = YOLO("yolov8n.yaml")
    model.ckpt, model.ckpt_path = {"epoch": 0, "optimizer": {"state": {}}}, "runs/attempt-1.pt"
    assert exact.going_on(model, {"epochs": 3}) == {"epochs": 3}
    assert isinstance(model.model, torch.nn.Module) and model.ckpt
    assert exact.going_on(model, {"resume": True}) == {"resume": "runs/attempt-1.pt"}
    assert (model.model, model.ckpt) == ("runs/attempt-1.pt", {})
    model.model = torch.nn.Linear(1, 1)  # as Ultralytics does after the training
    assert isinstance(model._modules["model"], torch.nn.Module)


def test_a_checkpoint_that_is_finished_is_left_to_ultralytics_own_words(exact: Any) -> None:
    model = YOLO("yolov8n.yaml")
    model.ckpt, model.ckpt_path = {"epoch": -1, "optimizer": None}, "runs/last.pt"
    assert exact.going_on(model, {"resume": True}) == {"resume": True}
    assert isinstance(model.model, torch.nn.Module)
