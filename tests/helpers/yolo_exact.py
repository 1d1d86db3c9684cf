"""The exact trainers of Ultralytics, set up."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import torch

from launcher.trainers.ultralytics.arguments import saved_in
from tests.helpers.shapes import ShapesData


def set_up(trainer: Any) -> None:
    """``_setup_train``, which takes the number of GPUs before Ultralytics 8.3.200."""
    from ultralytics.engine.trainer import BaseTrainer

    trainer._setup_train(*([0] if "world_size" in inspect.signature(BaseTrainer._setup_train).parameters else []))


SUFFIXES = {"detect": "", "segment": "-seg", "pose": "-pose", "obb": "-obb"}


TRAINERS = {"detect": "ExactDetectionTrainer", "segment": "ExactSegmentationTrainer", "pose": "ExactPoseTrainer", "obb": "ExactOBBTrainer"}


def trained_batch(exact: Any, task: str, model: str, data: ShapesData, folder: Path) -> tuple[torch.nn.Module, dict[str, Any]]:
    """A model of ``task`` in training mode and a real, preprocessed batch of ``data``."""
    trainer = getattr(exact, TRAINERS[task])(
        overrides={
            "model": model, "data": str(data.yaml), "imgsz": 64, "batch": 4, "epochs": 3, "device": "cpu", "plots": False,
            **saved_in(folder),
        }
    )  # fmt: skip
    set_up(trainer)
    trainer.model.train()
    return trainer.model, trainer.preprocess_batch(next(iter(trainer.train_loader)))
