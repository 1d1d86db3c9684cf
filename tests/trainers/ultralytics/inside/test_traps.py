"""Eleven ways in which Ultralytics would make a trial lie or touch the user's files, each with what holds it off.

| trap | held off by |
|---|---|
| 1 in-loop OOM retry halves the batch | test_the_full_runs_trainer_does_not_halve_its_batch, and in a whole trial (slow) below it |
| 2 the assigner swallows OOM | test_an_assigner_that_swallows_an_out_of_memory_error_is_reported |
| 3 DDP removes an existing save_dir | no trial spawns DDP; all save into scratch: test_trial.py::test_a_trial_that_fits_... |
| 4 fraction= rewrites the label cache | test_a_fraction_of_the_data_leaves_the_users_label_cache_alone |
| 5 epochs=1 is no faithful trial | test_the_users_epochs_and_what_hangs_on_them_are_kept |
| 6 weights bring imgsz, data, single_cls | test_trial.py::test_a_trial_from_weights_keeps_what_the_weights_say |
| 7 loggers go by the class's name | test_loggers_find_the_full_runs_trainer_and_not_the_trials |
| 8 resume on a finished checkpoint starts anew | test_a_trial_never_resumes; the launcher checks checkpoints before a real resume |
| 9 a new YOLO_CONFIG_DIR drops settings | test_trial.py::TestEnvironment |
| 10 no checkpoint, no end of train() | a trial ends by an exception of its own: test_the_end_of_a_trial_passes_every_except_exception |
| 11 DDP needs cloudpickle | trials run in one process; the full run's need is checked by the launcher before it starts several |
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.shared.orders import Orders
from launcher.shared.report import Phase
from launcher.trainers.ultralytics.arguments import saved_in
from launcher.trainers.ultralytics.inside.plan import Plan, TrialDone
from launcher.trainers.ultralytics.inside.unseen import Hooks
from tests.helpers.shapes import ShapesData, make_shapes
from tests.helpers.yolo_exact import set_up
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


@pytest.mark.slow
def test_an_out_of_memory_error_in_the_loop_ends_the_trial_instead_of_halving_the_batch(
    run_trial: RunTrial, shapes: Callable[..., ShapesData]
) -> None:
    ran = run_trial(shapes().yaml, module="tests.trainers.ultralytics.inside.faults.oom_in_every_forward")
    assert ran.status == 1
    assert ran.report.phase == Phase.TRAIN
    assert ran.report.failure is not None
    assert "OutOfMemoryError" in ran.report.failure.types
    assert ran.report.observed["micro_batch"] == 4
    assert ran.report.train_batches == 0
    assert "Reducing to batch=" not in ran.output


def test_an_assigner_that_swallows_an_out_of_memory_error_is_reported(run_trial: RunTrial, shapes: Callable[..., ShapesData]) -> None:
    ran = run_trial(shapes().yaml, module="tests.trainers.ultralytics.inside.faults.oom_in_the_assigner")
    assert ran.status == 0, ran.output
    assert ran.report.phase == Phase.DONE
    assert ran.report.swallowed[0].startswith("TaskAlignedAssigner ran out of memory (batch 4, ")


def test_a_trial_whose_loader_does_not_follow_its_script_proves_nothing(run_trial: RunTrial, shapes: Callable[..., ShapesData]) -> None:
    ran = run_trial(shapes().yaml, module="tests.trainers.ultralytics.inside.faults.loader_of_its_own")
    assert ran.report.phase == Phase.FINISH and ran.report.failure is None, ran.output
    assert "the training loader took its batches from elsewhere than the trial's script" in ran.report.hint


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
    set_up(exact.ExactDetectionTrainer(overrides=overrides))  # leaves the user's label caches, as any run of theirs does
    before = contents(data.folder)
    assert any(name.endswith("train.cache") for name in before)

    ran = run_trial(data.yaml, args={"fraction": 0.5})

    assert ran.status == 0, ran.output
    assert ran.report.train_samples == 6
    assert contents(data.folder) == before
    assert [path.name.split("-")[0] for path in (tmp_path / "cache").iterdir()] == ["train"]  # the user's val.cache was good


def test_the_users_epochs_and_what_hangs_on_them_are_kept(tmp_path: Path) -> None:
    plan = Plan.of(orders(tmp_path, {"epochs": 1, "close_mosaic": 10, "patience": 3, "fraction": 0.5, "data": "d.yaml"}))
    kept = {key: plan.arguments[key] for key in ("epochs", "close_mosaic", "patience", "fraction", "data")}
    assert kept == {"epochs": 1, "close_mosaic": 10, "patience": 3, "fraction": 0.5, "data": "d.yaml"}


def test_loggers_find_the_full_runs_trainer_and_not_the_trials(exact: Any, tmp_path: Path) -> None:
    from launcher.trainers.ultralytics.inside.trial_trainer import trial

    trainer = exact.ExactDetectionTrainer
    assert "Trainer" in trainer.__name__
    assert (trainer.__module__, trainer.__qualname__) == ("launcher.trainers.ultralytics.native.exact_trainer", "ExactDetectionTrainer")
    made = trial(trainer, Plan.of(orders(tmp_path, {})), recorder=None, scans=(), hooks=Hooks())  # type: ignore[arg-type]
    assert "Trainer" not in made.__name__


def test_a_trial_never_resumes(tmp_path: Path) -> None:
    assert Plan.of(orders(tmp_path, {"resume": True})).arguments["resume"] is False


def test_the_end_of_a_trial_passes_every_except_exception() -> None:
    assert not issubclass(TrialDone, Exception)


def orders(folder: Path, args: dict[str, Any]) -> Orders:
    payload = {"model": "yolov8n.yaml", "args": args, "asked_batch": 8, "asked_nbs": 16, "cache_dir": str(folder / "cache")}
    return Orders(module="none", folder=str(folder), device="cpu", cap_bytes=2**30, accumulation=2, payload=payload)
