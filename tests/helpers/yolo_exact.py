"""The exact trainers of Ultralytics, set up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from autofit_launcher.trainers.ultralytics.arguments import saved_in
from tests.helpers.shapes import ShapesData

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
    trainer._setup_train()
    trainer.model.train()
    return trainer.model, trainer.preprocess_batch(next(iter(trainer.train_loader)))
