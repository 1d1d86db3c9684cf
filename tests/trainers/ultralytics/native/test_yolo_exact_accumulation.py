"""A rung is the asked run, each of whose batches is trained in parts: steps, learning rates, sizes, and what comes of them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from autofit_launcher.trainers.ultralytics.arguments import saved_in
from tests.helpers.shapes import ShapesData

IMAGES = 24


@dataclass(frozen=True)
class Steps:
    """What a training did, as seen from its optimizer."""

    images: list[int]
    """Images that went into each optimizer step."""
    weight_decay: float
    optimizer: str
    rates: list[list[tuple[float, float | None]]]
    """Learning rate and momentum of each group, step by step."""
    sizes: list[int]
    """Of the images of each batch."""
    weights: dict[str, torch.Tensor]


def build(base: Any, data: ShapesData, folder: Path, **overrides: Any) -> Any:
    arguments = {
        "model": "yolov8n.yaml", "data": str(data.yaml), "imgsz": 32, "epochs": 4, "warmup_epochs": 2.0, "device": "cpu", "plots": False,
        "val": False, "optimizer": "SGD", "mosaic": 0.0, **saved_in(folder),
    }  # fmt: skip
    return base(overrides={**arguments, **overrides})


class Killed(Exception):
    """In the place of a kill."""


def train(base: Any, data: ShapesData, folder: Path, *, killed_after: int | None = None, **overrides: Any) -> Steps:
    """Really trains, and writes down every optimizer step. ``killed_after``: the epoch behind whose checkpoint it is killed."""
    seen: list[int] = []
    sizes: list[int] = []
    rates: list[list[tuple[float, float | None]]] = []
    parts: list[weakref.ref[torch.Tensor]] = []

    class RecordingTrainer(base):  # type: ignore[misc]
        _images = 0

        def _train_on(self, batch: Any) -> None:
            parts.append(weakref.ref(batch["img"]))
            assert sum(images() is not None for images in parts) == 1, "one at a time is on the device, as in a trial"
            super()._train_on(batch)

        def preprocess_batch(self, batch: Any) -> Any:
            self._images += len(batch["img"])
            batch = super().preprocess_batch(batch)
            sizes.append(batch["img"].shape[-1])
            return batch

        def optimizer_step(self) -> None:
            super().optimizer_step()
            seen.append(self._images)
            rates.append([(group["lr"], group.get("momentum")) for group in self.optimizer.param_groups])
            self._images = 0

        def validate(self) -> Any:
            return {}, 0.0

        def final_eval(self) -> None: ...

        def save_model(self) -> bool:
            if killed_after is None:
                return False
            super().save_model()
            if self.epoch + 1 == killed_after:
                raise Killed
            return True

    trainer = build(RecordingTrainer, data, folder, **overrides)
    trainer.train()
    decay = max(group["weight_decay"] for group in trainer.optimizer.param_groups)
    return Steps(
        images=seen, weight_decay=decay, optimizer=type(trainer.optimizer).__name__, rates=rates, sizes=sizes,
        weights=trainer.model.state_dict(),
    )  # fmt: skip


@pytest.fixture(scope="session")
def data(shapes: Callable[..., ShapesData]) -> ShapesData:
    return shapes(train=IMAGES, val=4, size=48, densest=3)


@pytest.mark.parametrize(
    ("asked", "micro_batch"),
    [
        ({"batch": 4, "nbs": 16}, 2),  # accumulation ramps 1 -> 4
        ({"batch": 12, "nbs": 4}, 3),  # the asked batch is above nbs
        ({"batch": 6, "nbs": 16}, 4),  # round(16/6) = 3: 18 images per step, not 16; and parts of 4 and of 2
        ({"batch": 10, "nbs": 20}, 5),  # the last batch of a pass has four images, and a step goes on into the next pass
        ({"batch": 8, "nbs": 8, "multi_scale": 0.5, "imgsz": 64, "optimizer": "auto"}, 4),
    ],
    ids=["ramp", "above-nbs", "rounded", "over-the-end", "sizes"],
)
def test_a_rung_makes_the_asked_runs_steps(exact: Any, data: ShapesData, tmp_path: Path, asked: dict[str, Any], micro_batch: int) -> None:
    from ultralytics.models.yolo.detect import DetectionTrainer

    wanted = train(DetectionTrainer, data, tmp_path / "asked", **asked)
    exact.configure(exact.ExactSettings(micro_batch=micro_batch))
    rung = train(exact.ExactDetectionTrainer, data, tmp_path / "rung", **asked)
    assert (rung.images, rung.rates, rung.sizes) == (wanted.images, wanted.rates, wanted.sizes)
    assert (rung.weight_decay, rung.optimizer) == (wanted.weight_decay, wanted.optimizer)


def test_a_batch_in_parts_is_what_ultralytics_own_accumulation_makes_of_them(exact: Any, data: ShapesData, tmp_path: Path) -> None:
    """Without a warm-up, in which that takes smaller steps."""
    from ultralytics.models.yolo.detect import DetectionTrainer

    once: dict[str, Any] = {"epochs": 2, "warmup_epochs": 0.0, "nbs": 8}
    wanted = train(DetectionTrainer, data, tmp_path / "own", batch=2, **once)
    exact.configure(exact.ExactSettings(micro_batch=2))
    rung = train(exact.ExactDetectionTrainer, data, tmp_path / "rung", batch=8, **once)
    assert rung.images == wanted.images
    assert max(float((rung.weights[name].double() - one.double()).abs().max()) for name, one in wanted.weights.items()) < 1e-6


def test_labels_go_with_their_images(exact: Any) -> None:
    batch = {"img": torch.arange(5.0).view(5, 1), "im_file": list("abcde"), "batch_idx": torch.tensor([0.0, 0, 2, 4]),
             "cls": torch.arange(4.0).view(4, 1), "masks": torch.arange(5)}  # fmt: skip
    found = list(exact.parts(batch, 2, masks_overlap=True))
    assert [part["im_file"] for part in found] == [["a", "b"], ["c", "d"], ["e"]]
    assert [part["batch_idx"].tolist() for part in found] == [[0, 0], [0], [0]]
    assert [part["cls"].flatten().tolist() for part in found] == [[0, 1], [2], [3]]
    assert [part["masks"].tolist() for part in found] == [[0, 1], [2, 3], [4]]
    of_labels = list(exact.parts({**batch, "masks": torch.arange(4)}, 2, masks_overlap=False))
    assert [part["masks"].tolist() for part in of_labels] == [[0, 1], [2], [3]]
    assert list(exact.parts(batch, 5, masks_overlap=True)) == [batch] == list(exact.parts(batch, None, masks_overlap=True))


def test_a_run_resumed_one_rung_lower_goes_on_as_the_asked_one_would(exact: Any, data: ShapesData, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"batch": 8, "nbs": 8, "warmup_epochs": 1.0}
    for name in ("rung", "asked"):
        with pytest.raises(Killed):
            train(exact.ExactDetectionTrainer, data, tmp_path / name, killed_after=2, **asked)
    last = {name: str(tmp_path / name / "weights" / "last.pt") for name in ("rung", "asked")}
    wanted = train(exact.ExactDetectionTrainer, data, tmp_path / "asked", model=last["asked"], resume=last["asked"], **asked)
    exact.configure(exact.ExactSettings(micro_batch=2))
    rung = train(exact.ExactDetectionTrainer, data, tmp_path / "rung", model=last["rung"], resume=last["rung"], **asked)
    assert rung.images == wanted.images == [8] * (2 * IMAGES // 8) and rung.rates == wanted.rates


def test_a_batch_that_ultralytics_has_halved_ends_the_run(exact: Any, data: ShapesData, tmp_path: Path) -> None:
    class Halving(exact.ExactDetectionTrainer):  # type: ignore[misc]
        def optimizer_step(self) -> None:
            self.batch_size = 1

    with pytest.raises(RuntimeError, match="out of memory: Ultralytics goes on with batch=1 instead of 2"):
        train(Halving, data, tmp_path / "run", batch=2, nbs=2)
