"""The effective batch, the applied weight decay and the chosen optimizer of a rung are the asked run's, warm-up included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.trainers.ultralytics.shapes import ShapesData

IMAGES = 24


@dataclass(frozen=True)
class Steps:
    """What a training did, as seen from its optimizer."""

    images: list[int]
    """Images that went into each optimizer step."""
    weight_decay: float
    optimizer: str


def build(base: Any, data: ShapesData, folder: Path, **overrides: Any) -> Any:
    arguments = {
        "model": "yolov8n.yaml", "data": str(data.yaml), "imgsz": 32, "epochs": 4, "warmup_epochs": 2.0, "device": "cpu", "plots": False,
        "val": False, "optimizer": "SGD", "save_dir": str(folder), "mosaic": 0.0,
    }  # fmt: skip
    return base(overrides={**arguments, **overrides})


def train(base: Any, data: ShapesData, folder: Path, **overrides: Any) -> Steps:
    """Really trains, and writes down every optimizer step."""
    seen: list[int] = []

    class RecordingTrainer(base):  # type: ignore[misc]
        _images = 0

        def preprocess_batch(self, batch: Any) -> Any:
            self._images += len(batch["img"])
            return super().preprocess_batch(batch)

        def optimizer_step(self) -> None:
            super().optimizer_step()
            seen.append(self._images)
            self._images = 0

        def validate(self) -> Any:
            return {}, 0.0

        def final_eval(self) -> None: ...

        def save_model(self) -> bool:
            return False

    trainer = build(RecordingTrainer, data, folder, **overrides)
    trainer.train()
    decay = max(group["weight_decay"] for group in trainer.optimizer.param_groups)
    return Steps(images=seen, weight_decay=decay, optimizer=type(trainer.optimizer).__name__)


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
    ],
    ids=["ramp", "none", "above-nbs", "rounded", "capped"],
)
def test_every_step_of_a_rung_takes_as_many_images_as_the_asked_run(
    exact: Any, data: ShapesData, tmp_path: Path, asked: dict[str, int], micro_batches: tuple[int, ...]
) -> None:
    from ultralytics.models.yolo.detect import DetectionTrainer

    wanted = train(DetectionTrainer, data, tmp_path / "asked", **asked)
    for micro_batch in micro_batches:
        exact.configure(exact.Settings(asked_batch=asked["batch"], asked_nbs=asked["nbs"]))
        rung = train(exact.ExactDetectionTrainer, data, tmp_path / f"rung{micro_batch}", batch=micro_batch, nbs=asked["nbs"])
        assert rung.images == wanted.images
        assert rung.weight_decay == pytest.approx(wanted.weight_decay, rel=1e-12)


def test_a_factor_says_the_same_as_the_asked_batch(exact: Any, data: ShapesData, tmp_path: Path) -> None:
    from ultralytics.models.yolo.detect import DetectionTrainer

    wanted = train(DetectionTrainer, data, tmp_path / "asked", batch=4, nbs=16)
    exact.configure(exact.Settings(accumulation_scale="2"))
    assert train(exact.ExactDetectionTrainer, data, tmp_path / "rung", batch=2, nbs=16).images == wanted.images


def test_a_micro_batch_that_does_not_divide_the_asked_batch_comes_as_near_as_whole_micro_batches_can(
    exact: Any, data: ShapesData, tmp_path: Path
) -> None:
    """Asked: 6 images, ramping to 12 per step. In fours (K = 3/2): exactly 12 after warm-up, at most half a micro-batch off in it."""
    exact.configure(exact.Settings(asked_batch=6, asked_nbs=12))
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
    """``nbs = E`` and ``weight_decay = wd0 * E / nbs0`` (facts, section 1) beside --asked-batch and --asked-nbs."""
    from ultralytics.models.yolo.detect import DetectionTrainer

    wanted = build(DetectionTrainer, data, tmp_path / "asked", batch=6, nbs=16, weight_decay=0.0005)
    wanted._setup_train()
    exact.configure(exact.Settings(asked_batch=6, asked_nbs=16))
    rung = build(exact.ExactDetectionTrainer, data, tmp_path / "rung", batch=3, nbs=18, weight_decay=0.0005 * 18 / 16)
    rung._setup_train()
    decays = [max(group["weight_decay"] for group in trainer.optimizer.param_groups) for trainer in (wanted, rung)]
    assert decays[0] == pytest.approx(decays[1], rel=1e-12)


def test_the_automatic_optimizer_is_the_asked_runs(exact: Any, data: ShapesData, tmp_path: Path) -> None:
    """Ultralytics picks MuSGD above 10,000 iterations of max(batch, nbs) images; asked 9/23 steps in 27s, and a plain 27 would flip it."""
    from ultralytics.models.yolo.detect import DetectionTrainer

    common = {"optimizer": "auto", "epochs": 6000}
    exact.configure(exact.Settings(asked_batch=9, asked_nbs=23))
    chosen = {}
    for name, base, batch, nbs in (
        ("asked", DetectionTrainer, 9, 23),
        ("plain rung", DetectionTrainer, 3, 27),
        ("exact rung", exact.ExactDetectionTrainer, 3, 27),
    ):
        trainer = build(base, data, tmp_path / name, batch=batch, nbs=nbs, **common)
        trainer._setup_train()
        chosen[name] = (type(trainer.optimizer).__name__, trainer.args.lr0)
    assert chosen["asked"] == chosen["exact rung"] == ("MuSGD", 0.01)
    assert chosen["plain rung"][0] == "AdamW"


def test_the_validation_batch_is_the_one_given(exact: Any, data: ShapesData, tmp_path: Path) -> None:
    exact.configure(exact.Settings(val_batch=3))
    trainer = build(exact.ExactDetectionTrainer, data, tmp_path / "run", batch=8, nbs=8)
    trainer._setup_train()
    assert (trainer.train_loader.batch_size, trainer.test_loader.batch_size) == (8, 3)
    assert trainer.validator.dataloader is trainer.test_loader


@pytest.mark.parametrize(
    ("settings", "batch", "words"),
    [
        (
            {"asked_batch": 64, "asked_nbs": 64},
            24,
            "batch=24 does not divide the effective batch of 64 images .*Nearest that do: 16 and 32",
        ),
        ({"accumulation_scale": "4/3"}, 4, r"--accumulation-scale 4/3 x batch=4 is 5.33333, not a whole batch"),
        ({}, -1, "batch=-1 lets Ultralytics choose the batch"),
    ],
    ids=["no-divisor", "no-whole-batch", "autobatch"],
)
def test_what_cannot_be_exact_is_refused(
    exact: Any, data: ShapesData, tmp_path: Path, settings: dict[str, Any], batch: int, words: str
) -> None:
    exact.configure(exact.Settings(**settings))
    with pytest.raises(exact.Refused, match=words):
        build(exact.ExactDetectionTrainer, data, tmp_path / "run", batch=batch, nbs=64)


@pytest.mark.parametrize(("asked_batch", "asked_nbs", "effective"), [(128, 64, 128), (24, 64, 72), (48, 64, 48), (4, 10, 8), (16, 64, 64)])
def test_the_effective_batch_is_what_ultralytics_really_takes(exact: Any, asked_batch: int, asked_nbs: int, effective: int) -> None:
    assert exact.effective_batch(asked_batch, asked_nbs) == effective


class TestCommandLine:
    def test_our_options_come_first_and_the_rest_is_untouched(self, exact: Any) -> None:
        words = ["detect", "train", "model=a b.pt", "data=d.yaml", "batch=16", "--checkpointing"]
        chosen, left = exact.parse(["--asked-batch", "64", "--asked-nbs", "128", "--checkpointing", "--val-batch", "8", *words])
        assert chosen == exact.Settings(asked_batch=64, asked_nbs=128, checkpointing=True, val_batch=8)
        assert left == words

    def test_two_ways_to_say_one_thing_are_refused(self, exact: Any, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            exact.parse(["--asked-batch", "64", "--accumulation-scale", "4", "train"])
        assert "give one of them" in capsys.readouterr().err

    def test_settings_travel_in_the_environment(self, exact: Any) -> None:
        wanted = exact.Settings(asked_batch=64, accumulation_scale=None, checkpointing=False, val_batch=4)
        exact.configure(wanted)
        assert exact.Settings.from_environment() == wanted

    def test_a_fraction_is_read_as_one(self, exact: Any) -> None:
        assert exact.Settings(accumulation_scale="3/2").asked(4, 64) == (int(Fraction(3, 2) * 4), 64)


class TestVersionGuard:
    """Fails when Ultralytics changes what we build upon: read what changed, run all tests, then renew hashes and ``CHECKED``."""

    def test_the_installed_version_is_the_one_that_was_checked(self, exact: Any) -> None:
        exact.check_ultralytics()

    def test_nothing_that_the_trial_builds_upon_has_changed(self, exact: Any) -> None:
        from launcher.trainers.ultralytics.inside import trial as ultralytics_trial

        assert exact.changed(ultralytics_trial.RELIED_UPON) == ()

    def test_every_function_that_is_overridden_or_patched_is_watched(self, exact: Any) -> None:
        from launcher.trainers.ultralytics.inside import trial as ultralytics_trial

        watched = {name.rpartition(".")[2].rpartition(":")[2] for name in (*exact.RELIED_UPON, *ultralytics_trial.RELIED_UPON)}
        overridden = {
            name for name, value in vars(exact.ExactDetectionTrainer).items() if callable(value) and hasattr(exact.DetectionTrainer, name)
        }
        assert overridden <= watched | {"__class_getitem__"}

    def test_a_later_version_that_reads_the_same_is_accepted(self, exact: Any) -> None:
        exact.check_ultralytics(version="8.4.250")

    @pytest.mark.parametrize("version", ["8.4.189", "8.3.250", "8.5.0", "9.0.0", "unknown"])
    def test_other_versions_are_refused_with_the_cure(self, exact: Any, version: str) -> None:
        with pytest.raises(exact.Refused, match=rf"ultralytics {version} is installed; .*pip install ultralytics==8\.4\.190"):
            exact.check_ultralytics(version=version)

    def test_a_changed_function_is_refused_by_name(self, exact: Any) -> None:
        with pytest.raises(exact.Refused, match=r"differs from 8\.4\.190 in what exact training builds upon: ultralytics.cfg:entrypoint"):
            exact.check_ultralytics({"ultralytics.cfg:entrypoint": "0" * 16}, version="8.4.190")

    def test_a_function_that_is_gone_counts_as_changed(self, exact: Any) -> None:
        assert exact.changed({"ultralytics.cfg:no_such_function": "0" * 16, "no_such_module:f": "0" * 16}) == (
            "ultralytics.cfg:no_such_function",
            "no_such_module:f",
        )
