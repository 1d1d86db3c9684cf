"""The truncated real trial: what it does, what it says, where it dies, and that it leaves nothing behind."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autofit_launcher.common.report import Phase
from autofit_launcher.ladder.rungs import Rung
from autofit_launcher.ladder.verdict import Kind
from autofit_launcher.machine.process import Ending
from autofit_launcher.trainers.suite import snapshot
from autofit_launcher.trainers.ultralytics import environment as ultralytics_env
from autofit_launcher.trainers.ultralytics.adapter import UltralyticsAdapter
from autofit_launcher.trainers.ultralytics.inside.validates import passing
from autofit_launcher.trainers.ultralytics.inside.worst import Sizes
from autofit_launcher.trial.judge import Needs, judge
from tests.helpers.shapes import ShapesData
from tests.trainers.ultralytics.conftest import MIB, RunTrial

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_a_trial_that_fits_did_its_steps_on_the_worst_data_and_wrote_nothing_of_the_users(
    run_trial: RunTrial, shapes: Callable[..., ShapesData], tmp_path: Path
) -> None:
    """One child for many questions: a child costs 6 s. Its audit hook ends it at the first look at the network."""
    data = shapes(val=9)
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    (cwd / "runs").mkdir()
    (cwd / "runs" / "kept.txt").write_text("a run of the user's")
    theirs = (data.folder, cwd, ultralytics_env.user_config_folder())
    before = [*map(snapshot, theirs)]
    ask, args = {"multi_scale": 0.5, "val_micro_batch": 4}, {"epochs": 300, "close_mosaic": 20, "project": "mine", "name": "best"}

    ran = run_trial(data.yaml, ask=ask, args=args, cwd=cwd, fault="offline", may_spill=True)

    assert ran.status == 0, ran.output
    assert [*map(snapshot, theirs)] == before
    report = ran.report
    assert [line for line in ran.output.splitlines() if line.startswith(("WRITE", "NETWORK"))] == []
    assert (report.phase, report.failure, report.swallowed) == (Phase.DONE, None, ())
    # at 96, 32, 64 and 96 px, one left over at 32; after validation again 96, 32, 64, 96, and 96 twice with mosaic closed, then two halves
    assert (report.optimizer_steps, report.train_batches, report.train_again_batches) == (6, 5, 8)
    assert report.full_step_seconds > 0 and report.half_step_seconds > 0
    assert report.validation_batches == 3  # the larger of the set's two shapes, the smaller, the larger
    # the largest size that multi_scale=0.5 can draw at 64 is ceil(96 / 32) * 32; validation pads squares by one stride
    assert report.observed == {
        "micro_batch": 4, "accumulation": 2, "image_size": 64, "largest_input": 96, "val_micro_batch": 4, "largest_val_input": 96,
        "device": "cpu",
    }  # fmt: skip
    assert (report.train_samples, report.validation_batches_total) == (12, 3)
    assert any("the densest training image has 25 labels; 100 allowed for after augmentation" in note for note in report.notes)
    assert report.facts["said_accumulation"] == 4
    assert report.cap_bytes == 3000 * MIB
    phases = [use.phase for use in report.uses]
    assert phases == ["start", "setup", "train", "validate", "train_again", "finish"]
    assert all(use.reserved_bytes > 50 * MIB for use in report.uses[2:])


OUT_OF_MEMORY = re.compile(r"DefaultCPUAllocator: can't allocate memory|could not create a primitive|MemoryError|bad_alloc")


def test_a_validation_batch_too_large_fails_in_validation_though_training_went_through(
    run_trial: RunTrial, shapes: Callable[..., ShapesData], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch's clean error at the cap nearly always; oneDNN's, or the death of a library that does not check, rarely."""
    monkeypatch.setattr(UltralyticsAdapter, "_val_batch", lambda self, rung: 64)
    ran = run_trial(shapes(val=64).yaml, cap_mib=260, ask={"micro_batch": 2, "accumulation": 8, "image_size": 160})
    assert ran.report.phase == Phase.VALIDATE, ran.output
    assert (ran.report.train_batches, ran.report.optimizer_steps, ran.report.validation_batches) == (5, 2, 0)
    if ran.report.failure is None:
        assert ran.status == -signal.SIGSEGV, ran.output
        return
    assert OUT_OF_MEMORY.search(ran.report.failure.message), ran.report.failure.message
    assert ran.report.uses[-1].phase == Phase.VALIDATE
    assert ran.report.uses[-1].reserved_bytes > 0.8 * ran.report.cap_bytes


@pytest.mark.slow
def test_a_loss_that_is_not_finite_ends_the_trial_and_is_its_verdict(run_trial: RunTrial, shapes: Callable[..., ShapesData]) -> None:
    ran = run_trial(shapes().yaml, args={"box": 1e39})  # a gain that no float32 holds; Ultralytics itself refuses lr0=1e6
    ending = Ending(returncode=ran.status)
    rung = Rung(index=0, values={"micro_batch": 4}, position=(0,), accumulation=4, world_size=1)
    verdict = judge(ran.report, ending, rung=rung, needs=Needs(optimizer_steps=2, validation_batches=1))
    assert verdict.kind is Kind.DIVERGED, ran.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "model", "args", "ask"),
    [
        ("segment", "yolo11n-seg.yaml", {}, {"checkpointing": True, "multi_scale": 0.3}),
        ("segment", "yolo26n-seg.yaml", {"overlap_mask": False}, {}),
        ("pose", "yolov8n-pose.yaml", {}, {"checkpointing": True}),
        ("obb", "yolo26n-obb.yaml", {}, {"checkpointing": True}),
        ("detect", "yolo26n.yaml", {"rect": True}, {}),
        ("detect", "yolo11n.yaml", {"single_cls": True, "mixup": 0.5}, {"checkpointing": True}),
        ("detect", "yolov8n.yaml", {"epochs": 1, "plots": True}, {"micro_batch": 4, "accumulation": 1}),
        ("detect", "yolov8n.yaml", {"cache": "disk", "close_mosaic": 0, "val": False, "save": False}, {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value) if isinstance(value, dict) else None,
)
def test_every_covered_task_and_family_runs_through(
    run_trial: RunTrial, shapes: Callable[..., ShapesData], task: str, model: str, args: dict[str, Any], ask: dict[str, Any]
) -> None:
    data = shapes(task)
    before = snapshot(data.folder)
    ran = run_trial(data.yaml, args=args, ask={"model": model, **ask})
    assert ran.status == 0, ran.output
    assert ran.report.phase == Phase.DONE
    assert ran.report.observed["micro_batch"] == 4
    assert ran.report.validation_batches >= 2
    assert ran.report.train_again_batches >= 1
    assert snapshot(data.folder) == before


def test_a_model_whose_scores_are_no_numbers_still_passes_its_validation() -> None:
    import torch

    validator = SimpleNamespace(nc=1, args=SimpleNamespace(conf=0.01), postprocess=lambda predictions: predictions)
    for scores, expected in ((torch.full((2, 6, 50), torch.nan), 0.0), (torch.linspace(0, 1, 50).repeat(2, 6, 1), 39 / 49)):
        passing(10, validator)(scores)
        assert validator.args.conf == pytest.approx(expected)


def test_a_version_that_draws_whether_to_draw_a_size_draws_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """8.4.0: ``if random.random() < multi_scale``, also where there is none."""
    from ultralytics.models.yolo.detect import train

    monkeypatch.setattr(train, "random", train.random)  # it takes its place
    sizes = Sizes()
    assert train.random is sizes
    assert sizes.random() < 0.1 and not sizes.random() < 0.0
    assert sizes.randrange(32, 97) == 96 and 0 <= sizes.uniform(0, 1) <= 1, "whatever else is asked of chance"
