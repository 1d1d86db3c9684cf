"""Ways in which Ultralytics would make a trial lie or touch the user's files, each with what holds it off.

| trap | held off by |
|---|---|
| in-loop OOM retry halves the batch | test_the_full_runs_trainer_does_not_halve_its_batch |
| the assigner swallows OOM | test_an_assigner_that_swallows_an_out_of_memory_error_is_reported |
| fraction= rewrites the label cache | test_a_fraction_of_the_data_leaves_the_users_label_cache_alone |
| loggers send | test_no_logger_but_tensorboard_is_a_trials |
| a new YOLO_CONFIG_DIR drops settings | test_trial.py::TestEnvironment |
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from launcher.shared.report import Phase
from launcher.trainers.ultralytics.arguments import saved_in
from launcher.trainers.ultralytics.inside import hooks
from tests.helpers.shapes import ShapesData, make_shapes
from tests.trainers.ultralytics.conftest import RunTrial, contents


def test_the_full_runs_trainer_does_not_halve_its_batch(exact: Any, shapes: Callable[..., ShapesData], tmp_path: Path) -> None:
    import torch

    class FailingTrainer(exact.ExactDetectionTrainer):  # type: ignore[misc]
        def preprocess_batch(self, batch: Any) -> Any:
            super().preprocess_batch(batch)
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    trainer = FailingTrainer(
        overrides={
            "model": "yolov8n.yaml",
            "data": str(shapes().yaml),
            "imgsz": 64,
            "batch": 4,
            "device": "cpu",
            "plots": False,
            **saved_in(tmp_path / "run"),
        }
    )
    with pytest.raises(torch.OutOfMemoryError):
        trainer.train()
    assert trainer.batch_size == 4


def test_an_assigner_that_swallows_an_out_of_memory_error_is_reported(run_trial: RunTrial, shapes: Callable[..., ShapesData]) -> None:
    ran = run_trial(shapes().yaml, fault="oom_in_the_assigner")
    assert ran.status == 0, ran.output
    assert ran.report.phase == Phase.DONE
    assert ran.report.swallowed[0].startswith("TaskAlignedAssigner ran out of memory (")


@pytest.mark.slow
def test_a_trial_whose_loader_does_not_follow_its_script_proves_nothing(
    run_trial: RunTrial, shapes: Callable[..., ShapesData], tmp_path: Path
) -> None:
    ran = run_trial(shapes().yaml, fault="loader_of_its_own", args={"epochs": 1}, cwd=tmp_path)
    said = ran.report.hint if ran.report.failure is None else ran.report.failure.message
    assert ran.report.phase != Phase.DONE, ran.output
    assert "takes its training images from elsewhere than its loader's batch_sampler" in said


def test_a_fraction_of_the_data_leaves_the_users_label_cache_alone(run_trial: RunTrial, exact: Any, tmp_path: Path) -> None:
    data = make_shapes(tmp_path / "data")
    overrides = {
        "model": "yolov8n.yaml",
        "data": str(data.yaml),
        "imgsz": 64,
        "batch": 4,
        "device": "cpu",
        "plots": False,
        **saved_in(tmp_path / "run"),
    }
    exact.ExactDetectionTrainer(overrides=overrides)._setup_train()  # leaves the user's label caches, as any run of theirs does
    before = contents(data.folder)
    assert any(name.endswith("train.cache") for name in before)

    ran = run_trial(data.yaml, args={"fraction": 0.5})

    assert ran.status == 0, ran.output
    assert ran.report.train_samples == 6
    assert contents(data.folder) == before


def test_no_logger_but_tensorboard_is_a_trials() -> None:
    told: Any = hooks.hooks(SimpleNamespace())  # type: ignore[arg-type]
    assert "ultralytics.utils.callbacks.tensorboard" not in told
    module: Any = SimpleNamespace(__name__="ultralytics.utils.callbacks.wb", callbacks={"on_train_start": print})
    told[module.__name__][1](module)
    assert module.callbacks == {}
