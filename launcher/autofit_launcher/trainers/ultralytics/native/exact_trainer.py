"""Ultralytics' trainers, with exact accumulation. Beside ``yolo.py``.

The loop, the loader, the schedule and the optimizer are those of the asked run, each of whose batches is trained in parts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from ultralytics.engine.trainer import BaseTrainer
from ultralytics.models.yolo.detect import DetectionTrainer
from ultralytics.models.yolo.obb import OBBTrainer
from ultralytics.models.yolo.pose import PoseTrainer
from ultralytics.models.yolo.segment import SegmentationTrainer

from . import exact_settings, yolo_ranks
from .exact_settings import Refused

_OF_THE_CHECKPOINT = ("model", "data", "mode", "task", "project", "name", "save_dir", "exist_ok", "resume", "pretrained")
"""Arguments that a run which goes on finds in its checkpoint, or gets from elsewhere."""
_OF_LABELS = ("batch_idx", "cls", "bboxes", "keypoints", "segments", "obb")
"""Keys of a batch with one row for each label; all else has one for each image. ``masks`` is of images where masks overlap."""


class Exact(BaseTrainer):  # type: ignore[misc]
    """A trainer that does what its other base class does, with this process's ``exact_settings.settings``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "overrides": yolo_ranks.in_the_folder_of_rank_0(kwargs.get("overrides"))})
        yolo_ranks.tell_folder(self.save_dir)
        self._own_batch = self.args.batch
        if exact_settings.settings.tell:
            Path(exact_settings.settings.tell).write_text(f"{Path(self.save_dir).absolute()}\n", encoding="utf-8")

    def check_resume(self, overrides: Any) -> None:
        """Ultralytics takes most arguments of a run that goes on from the checkpoint, which may be another rung's.

        Whatever keeps it from loading one, memory or what is in the file, it tells as a file that isn't there."""
        try:
            super().check_resume(overrides)
        except FileNotFoundError as error:
            raise (error.__cause__ or error) from None
        for key, value in overrides.items() if self.resume else ():
            if key not in _OF_THE_CHECKPOINT:
                setattr(self.args, key, value)

    def run_callbacks(self, event: str) -> None:
        """Ultralytics says here where its loop is."""
        if event == "on_train_epoch_start":
            self._oom_retries = 3  # no more retries, so an out-of-memory error is raised
        super().run_callbacks(event)

    # -- a batch in parts

    def preprocess_batch(self, batch: Any) -> Any:
        """Ultralytics calls this once for every batch, and trains what comes back: its last part. Those before it are trained here.

        Every part has the size that multi-scale draws for the batch."""
        if self.batch_size != self._own_batch:
            raise RuntimeError(
                f"out of memory: Ultralytics goes on with batch={self.batch_size} instead of {self._own_batch}, which is another run"
            )
        *first, last = parts(batch, exact_settings.settings.micro_batch, masks_overlap=self.args.overlap_mask)
        drawn = random.getstate()
        while first:  # a part that was trained is let go: it has its images on the device
            self._train_on(super().preprocess_batch(first.pop(0)))
            random.setstate(drawn)
        return super().preprocess_batch(last)

    def _train_on(self, batch: Any) -> None:
        """A forward and a backward pass, as in Ultralytics' loop; the gradients stay."""
        if getattr(self.args, "compile", False):
            from ultralytics.utils.torch_utils import unwrap_model  # not before 8.3.200, which has no compile either

            loss, _ = unwrap_model(self.model).loss(batch, self.model(batch["img"]))
        else:
            loss, _ = self.model(batch)
        with torch.autocast(self.device.type, enabled=False):
            self.scaler.scale(loss.sum() * max(yolo_ranks.WORLD_SIZE, 1)).backward()
        torch.clear_autocast_cache()  # as at the end of each of the loop's own

    # -- validation batch

    def get_dataloader(self, dataset_path: Any, batch_size: int = 16, rank: int = 0, mode: str = "train") -> Any:
        if mode == "val" and exact_settings.settings.val_batch:
            batch_size = exact_settings.settings.val_batch
        return super().get_dataloader(dataset_path, batch_size=batch_size, rank=rank, mode=mode)


def parts(batch: dict[str, Any], most: int | None, *, masks_overlap: bool) -> Iterator[dict[str, Any]]:
    """The batch in parts of at most so many images; as it is where it has no more."""
    images = len(batch["img"])
    if most is None or images <= most:
        yield batch
        return
    of_labels = _OF_LABELS if masks_overlap else (*_OF_LABELS, "masks")
    for first in range(0, images, most):
        mine = (batch["batch_idx"] >= first) & (batch["batch_idx"] < first + most)
        part = {key: value[mine] if key in of_labels else value[first : first + most] for key, value in batch.items()}
        yield {**part, "batch_idx": part["batch_idx"] - first}


def exact(base: Any) -> Any:
    """A trainer class that does what ``base`` does, exactly.

    Its name keeps "Trainer": Ultralytics attaches the loggers (wandb, mlflow, ...) only to classes so named.
    """
    return type(f"Exact{base.__name__}", (Exact, base), {"__module__": __name__})


COVERED = (DetectionTrainer, SegmentationTrainer, PoseTrainer, OBBTrainer)


def trainer_for(model: Any) -> Any:
    """The exact trainer for an Ultralytics ``Model``; raises ``Refused`` where there is none."""
    base = model._smart_load("trainer")
    if base not in COVERED:
        covered = ", ".join(sorted(known.__name__ for known in COVERED))
        raise Refused(f"{base.__module__}.{base.__name__} is not covered here (covered: {covered}). Run it by the plain yolo command.")
    return exact(base)
