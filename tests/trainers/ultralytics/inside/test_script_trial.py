"""A trial of a person's script: the script runs up to its training, which is tried at the rung's settings in its place."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from autofit_launcher.common.report import Phase
from tests.trainers.ultralytics.conftest import RunTrial

SCRIPT = """import sys
from pathlib import Path
from ultralytics import YOLO
CONFIG = dict(batch=8, imgsz=64, data=sys.argv[1], epochs=100, plots=False, device='cpu', nbs=16)
import helper
print('before')
Path('log.txt').write_text('begun')
print('read back', Path('log.txt').read_text())
try:
    model = YOLO('yolov8n.yaml')
    model.add_callback('on_train_batch_start', lambda trainer: print('the callback saw', trainer.args.imgsz))
    model.train(**CONFIG)
    model.val(batch=6)
    print('came to its end')
except Exception as error:
    print('caught', error)
Path('after').touch()
"""


def test_the_rung_is_tried_where_the_script_trains_and_the_script_goes_on_to_its_end(
    run_trial: RunTrial, shapes: Any, tmp_path: Path
) -> None:
    script = tmp_path / "persons" / "train.py"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    (script.parent / "helper.py").touch()
    args = {"command": [sys.executable, str(script), str(shapes().yaml)], "epochs": 100, "plots": False, "nbs": 16}
    ran = run_trial(shapes().yaml, cwd=script.parent, args=args)
    assert ran.report.phase == Phase.DONE, ran.output
    assert ran.report.observed["micro_batch"] == 4 and ran.report.observed["accumulation"] == 2
    assert "read back begun" in ran.output and "the callback saw 64" in ran.output and "caught" not in ran.output
    assert "came to its end" in ran.output, "its own validation is cut to a few batches"
    assert sorted(one.name for one in script.parent.iterdir()) == ["helper.py", "train.py"]
