"""The effective batch, the applied weight decay and the chosen optimizer of a rung are the asked run's, warm-up included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from launcher.trainers.ultralytics.arguments import saved_in
from tests.helpers.shapes import ShapesData
from tests.helpers.yolo_exact import set_up

IMAGES = 24


@dataclass(frozen=True)
class Steps:
    """What a training did, as seen from its optimizer."""

    images: list[int]
    """Images that went into each optimizer step."""
    weight_decay: float
    optimizer: str
    reckoned: int | None
    """Steps in all as the exact trainer has worked them out before the first."""
    rates: list[list[tuple[float, float]]]
    """Learning rate and momentum of each group, step by step."""


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
    rates: list[list[tuple[float, float]]] = []

    class RecordingTrainer(base):  # type: ignore[misc]
        _images = 0

        def preprocess_batch(self, batch: Any) -> Any:
            self._images += len(batch["img"])
            return super().preprocess_batch(batch)

        def optimizer_step(self) -> None:
            super().optimizer_step()
            seen.append(self._images)
            rates.append([(group["lr"], group["momentum"]) for group in self.optimizer.param_groups])
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
    reckoned = trainer.updates_in_all() if hasattr(trainer, "updates_in_all") else None
    decay = max(group["weight_decay"] for group in trainer.optimizer.param_groups)
    return Steps(images=seen, reckoned=reckoned, weight_decay=decay, optimizer=type(trainer.optimizer).__name__, rates=rates)


@pytest.fixture(scope="session")
def data(shapes: Callable[..., ShapesData]) -> ShapesData:
    return shapes(train=IMAGES, val=4, size=48, densest=3)


@pytest.mark.parametrize(
    ("asked", "micro_batches"),
    [
        ({"batch": 4, "nbs": 16}, (2,)),  # accumulation ramps 1 -> 4
        ({"batch": 8, "nbs": 8}, (4, 2)),  # 1, always
        ({"batch": 12, "nbs": 4}, (6, 3)),  # the asked batch is above nbs
        ({"batch": 6, "nbs": 16}, (3, 2)),  # round(16/6) = 3: 18 images per step, not 16
        ({"batch": 8, "nbs": 64}, (4,)),  # capped: the asked run has only 12 micro-batches
        ({"batch": 10, "nbs": 10}, (5, 2)),  # the last micro-batch of a pass has four images, and a step of its own
        ({"batch": 10, "nbs": 20}, (5, 2)),  # the same, and a step goes on into the next pass
    ],
    ids=["ramp", "none", "above-nbs", "rounded", "capped", "remainder", "over-the-end"],
)
def test_every_step_of_a_rung_takes_as_many_images_as_the_asked_run(
    exact: Any, data: ShapesData, tmp_path: Path, asked: dict[str, int], micro_batches: tuple[int, ...]
) -> None:
    from ultralytics.models.yolo.detect import DetectionTrainer

    wanted = train(DetectionTrainer, data, tmp_path / "asked", **asked)
    for micro_batch in micro_batches:
        exact.configure(exact.ExactSettings(asked_batch=asked["batch"], asked_nbs=asked["nbs"]))
        rung = train(exact.ExactDetectionTrainer, data, tmp_path / f"rung{micro_batch}", batch=micro_batch, nbs=asked["nbs"])
        assert rung.images == wanted.images
        assert rung.reckoned in (len(wanted.images), None) and (rung.reckoned is None) is bool(asked["batch"] % micro_batch)
        assert rung.rates == wanted.rates, "those of the asked run's micro-batch at which it steps"
        assert rung.weight_decay == pytest.approx(wanted.weight_decay, rel=1e-12)


def test_a_run_resumed_one_rung_lower_takes_every_step_from_the_first_on_with_as_many_images(
    exact: Any, data: ShapesData, tmp_path: Path
) -> None:
    """Ultralytics itself steps after the first micro-batch of a resumed run, whatever the accumulation."""
    asked = {"batch": 4, "nbs": 8, "warmup_epochs": 1.0}
    with pytest.raises(Killed):
        train(exact.ExactDetectionTrainer, data, tmp_path / "run", killed_after=2, **asked)
    last = str(tmp_path / "run" / "weights" / "last.pt")
    exact.configure(exact.ExactSettings(asked_batch=4, asked_nbs=8))
    rung = train(exact.ExactDetectionTrainer, data, tmp_path / "run", model=last, resume=last, batch=2, nbs=8)
    assert rung.images == [8] * (2 * IMAGES // 8)


def test_a_micro_batch_that_does_not_divide_the_asked_batch_comes_as_near_as_whole_micro_batches_can(
    exact: Any, data: ShapesData, tmp_path: Path
) -> None:
    """Asked: 6 images, ramping to 12 per step. In fours (K = 3/2): exactly 12 after warm-up, at most half a micro-batch off in it."""
    exact.configure(exact.ExactSettings(asked_batch=6, asked_nbs=12))
    steps = train(exact.ExactDetectionTrainer, data, tmp_path / "rung", batch=4, nbs=12).images
    warmup_images = 2 * IMAGES
    seen = 0
    for images in steps:
        if seen > warmup_images:
            assert images == 12
        else:
            assert min(abs(images - asked) for asked in (6, 12)) <= 2
        seen += images


def test_the_launchers_own_spelling_of_nbs_and_weight_decay_gives_the_same_decay(exact: Any, data: ShapesData, tmp_path: Path) -> None:
    """``nbs = E`` and ``weight_decay = wd0 * E / nbs0`` (facts, section 1)."""
    from ultralytics.models.yolo.detect import DetectionTrainer

    wanted = build(DetectionTrainer, data, tmp_path / "asked", batch=6, nbs=16, weight_decay=0.0005)
    set_up(wanted)
    exact.configure(exact.ExactSettings(asked_batch=6, asked_nbs=16))
    rung = build(exact.ExactDetectionTrainer, data, tmp_path / "rung", batch=3, nbs=18, weight_decay=0.0005 * 18 / 16)
    set_up(rung)
    decays = [max(group["weight_decay"] for group in trainer.optimizer.param_groups) for trainer in (wanted, rung)]
    assert decays[0] == pytest.approx(decays[1], rel=1e-12)


def test_the_automatic_optimizer_is_the_asked_runs(exact: Any, data: ShapesData, tmp_path: Path) -> None:
    """Ultralytics picks another above 10,000 iterations of max(batch, nbs); asked 9/23 steps in 27s, and plain 27s would flip it."""
    from ultralytics.models.yolo.detect import DetectionTrainer

    common = {"optimizer": "auto", "epochs": 6000}
    exact.configure(exact.ExactSettings(asked_batch=9, asked_nbs=23))
    chosen = {}
    for name, base, batch, nbs in (
        ("asked", DetectionTrainer, 9, 23),
        ("plain rung", DetectionTrainer, 3, 27),
        ("exact rung", exact.ExactDetectionTrainer, 3, 27),
    ):
        trainer = build(base, data, tmp_path / name, batch=batch, nbs=nbs, **common)
        set_up(trainer)
        chosen[name] = (type(trainer.optimizer).__name__, trainer.args.lr0)
    assert chosen["asked"] == chosen["exact rung"]
    above, below = chosen["asked"][0], chosen["plain rung"][0]
    assert (above, below) in (("MuSGD", "AdamW"), ("SGD", "MuSGD"), ("SGD", "AdamW")), "by version: 8.4.60; 8.4.0; 8.3"


def test_the_validation_batch_is_the_one_given(exact: Any, data: ShapesData, tmp_path: Path) -> None:
    exact.configure(exact.ExactSettings(val_batch=3))
    trainer = build(exact.ExactDetectionTrainer, data, tmp_path / "run", batch=8, nbs=8)
    set_up(trainer)
    assert (trainer.train_loader.batch_size, trainer.test_loader.batch_size) == (8, 3)
    assert trainer.validator.dataloader is trainer.test_loader


@pytest.mark.parametrize(
    ("settings", "batch", "words"),
    [
        (
            {"asked_batch": 64, "asked_nbs": 64},
            24,
            "batch=24 does not divide the effective batch of 64 images",
        ),
        ({}, -1, "batch=-1 lets Ultralytics choose the batch"),
    ],
    ids=["no-divisor", "autobatch"],
)
def test_what_cannot_be_exact_is_refused(
    exact: Any, data: ShapesData, tmp_path: Path, settings: dict[str, Any], batch: int, words: str
) -> None:
    exact.configure(exact.ExactSettings(**settings))
    with pytest.raises(exact.Refused, match=words):
        build(exact.ExactDetectionTrainer, data, tmp_path / "run", batch=batch, nbs=64)


class TestVersionGuard:
    def test_an_accumulation_that_is_not_the_expected_one_ends_the_run(
        self, exact: Any, data: ShapesData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As where a later Ultralytics ramps otherwise: here the file believes in another ramp than the installed one's."""
        monkeypatch.setattr(exact.Ramp, "at", lambda self, iteration, *, warmup, end: 3 + iteration)
        exact.configure(exact.ExactSettings(asked_batch=4, asked_nbs=16))
        with pytest.raises(exact.Refused, match="accumulates otherwise than this file knows it: 1 instead of 3 micro-batches"):
            train(exact.ExactDetectionTrainer, data, tmp_path / "rung", batch=2, nbs=16)

    def test_a_batch_that_ultralytics_has_halved_ends_the_run(self, exact: Any, data: ShapesData, tmp_path: Path) -> None:
        class Halving(exact.ExactDetectionTrainer):  # type: ignore[misc]
            def optimizer_step(self) -> None:
                self.batch_size = 1

        with pytest.raises(RuntimeError, match="out of memory: Ultralytics goes on with batch=1 instead of 2"):
            train(Halving, data, tmp_path / "run", batch=2, nbs=2)
