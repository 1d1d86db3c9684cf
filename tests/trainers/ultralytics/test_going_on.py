"""What fits must be able to go on from the checkpoint that its trial has saved: a second process resumes it under the same budget."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ultralytics")

from autofit_launcher.common.report import Phase
from autofit_launcher.common.sizes import MIB
from autofit_launcher.trainers.ultralytics.adapter import UltralyticsAdapter
from autofit_launcher.trial.trial import Trial
from tests.helpers import going_on, yolo_recipe
from tests.helpers.shapes import ShapesData

pytestmark = pytest.mark.slow


def tried(data: Path | str, place: Path, *, ask: dict[str, Any] | None = None, args: dict[str, Any] | None = None, **more: Any) -> Trial:
    small = {"model": "yolov8n.yaml", "image_size": 64, **(ask or {})}
    recipe = yolo_recipe.make(data, ask=small, args={"epochs": 20, "plots": False, **(args or {})}, **more)
    adapter = UltralyticsAdapter(recipe)
    return going_on.tried(adapter, place, memory_bytes=2000 * MIB)


TRAININGS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("detect", {"accumulation": 4}, {}),
    ("segment", {"model": "yolo11n-seg.yaml", "checkpointing": True}, {"multi_scale": 0.5, "optimizer": "SGD"}),
]


@pytest.mark.parametrize(("task", "ask", "args"), TRAININGS)
def test_the_checkpoint_is_resumed_in_a_new_process_to_its_end(
    task: str, ask: dict[str, Any], args: dict[str, Any], shapes: Callable[..., ShapesData], tmp_path: Path
) -> None:
    found = tried(shapes(task).yaml, tmp_path, ask=ask, args=args)
    assert found.verdict.fits, found.verdict
    uses = {use.phase: use for use in found.report.uses}
    assert list(uses) == ["start", "setup", "train", "validate", "train_again", "finish", "resume"]
    assert uses[Phase.RESUME].batches >= 1
    assert uses[Phase.RESUME].held_bytes > uses[Phase.SETUP].held_bytes
    output = (found.folder / "resumed" / "stdout.log").read_text()
    assert "Resuming training" in output and "from epoch 2 to 20 total epochs" in output, output
    assert found.verdict.peak_bytes == max(use.held_bytes for use in uses.values())


def test_a_script_is_run_again_and_resumed_where_it_trains(shapes: Callable[..., ShapesData], tmp_path: Path) -> None:
    """Its own weights are let go for those of the checkpoint."""
    data = shapes().yaml
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    found = tried(data, tmp_path, args={"command": [sys.executable, str(script), str(data)]})
    assert found.verdict.fits, found.verdict
    assert [use.phase for use in found.report.uses][-1] == Phase.RESUME, found.report.notes
    said = (found.folder / "resumed" / "stdout.log").read_text()
    assert "it has begun" in said and "Resuming training" in said and "a model of: str" in said and "caught" not in said


SCRIPT = """import sys
from ultralytics import YOLO
print('it has begun')
try:
    model = YOLO('yolov8n.yaml')
    model.add_callback('on_train_start', lambda trainer: print('a model of:', type(model.model).__name__))
    model.train(batch=4, imgsz=64, data=sys.argv[1], epochs=20, plots=False, device='cpu')
except Exception as error:
    print('caught', error)
"""
