"""A trial of a person's script: the script runs up to its training, which is tried at the rung's settings in its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from launcher.shared.report import Phase
from tests.trainers.ultralytics.conftest import RunTrial

SCRIPT = """import sys
from pathlib import Path
from ultralytics import YOLO
CONFIG = dict(batch=8, imgsz=64, data=sys.argv[1], epochs=100, plots=False, device='cpu', nbs=16)
print('before')
try:
    model = YOLO('yolov8n.yaml')
    model.add_callback('on_train_batch_start', lambda trainer: print('the callback saw', trainer.batch_size))
    model.train(**CONFIG)
except Exception as error:
    print('caught', error)
Path('after').touch()
"""


def payload(script: Path, data: Path, **given: Any) -> dict[str, Any]:
    return {"script": [str(script), str(data)], "given": {"batch": 8, "imgsz": 64, "data": str(data), **given}}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_the_rung_is_tried_where_the_script_trains_and_nothing_behind_it_runs(run_trial: RunTrial, shapes: Any, script: Path) -> None:
    ran = run_trial(shapes().yaml, cwd=script.parent, **payload(script, shapes().yaml))
    assert ran.report.phase == Phase.DONE, ran.output
    assert ran.report.observed["micro_batch"] == 4 and ran.report.facts["effective_batch"] == 16
    assert "before" in ran.output and "the callback saw 4" in ran.output and "caught" not in ran.output
    assert not (script.parent / "after").exists() and not (script.parent / "runs").exists()


def test_out_of_memory_ends_the_trial_though_the_script_catches_it(run_trial: RunTrial, shapes: Any, script: Path) -> None:
    ran = run_trial(shapes().yaml, cwd=script.parent, cap_mib=90, **payload(script, shapes().yaml))
    assert ran.status == 1 and ran.report.failure is not None and "caught" not in ran.output
    assert ran.report.failure.types[-1] in ("RuntimeError", "MemoryError") or "memory" in ran.report.failure.message.lower()


def test_a_script_that_gives_something_else_now_is_told_with_both_values(run_trial: RunTrial, shapes: Any, script: Path) -> None:
    ran = run_trial(shapes().yaml, cwd=script.parent, **payload(script, shapes().yaml, batch=32))
    assert ran.report.failure is not None and "the script gives batch=8 instead of 32" in ran.report.failure.message
