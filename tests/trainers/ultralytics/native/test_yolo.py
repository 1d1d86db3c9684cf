"""A command that trains with Ultralytics, with ``yolo.py`` loaded into it: what its training takes is another, all else as it stands."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.shapes import ShapesData
from tests.trainers.ultralytics.conftest import loaded

SCRIPT = """import os, pickle, sys
from pathlib import Path
from ultralytics import YOLO

class Mine: ...

def die(trainer):
    print('nbs', trainer.args.nbs, __name__, __file__, os.environ.get('CUDA_VISIBLE_DEVICES'))
    if os.environ.get('DIE'):
        os._exit(9)

os.environ['CUDA_VISIBLE_DEVICES'] = '0,1,2,3'
model = YOLO('yolov8n.yaml')
model.add_callback('on_fit_epoch_end' if 'late' in sys.argv else 'on_model_save', die)
results = model.train(data=sys.argv[1], batch=8, nbs=16, imgsz=64, epochs=2, device='cpu', plots=False, project=os.getcwd(), name='mine')
pickle.loads(pickle.dumps(Mine()))
Path('after').write_text(f'{results.box.map} {model.trainer is not None} {model.val(plots=False, data=sys.argv[1], device="cpu").box.map}')
"""
CATCHES = """from ultralytics import YOLO
batch = 8
while batch:
    try:
        YOLO('yolov8n.yaml').train(data='d.yaml', batch=batch)
        break
    except Exception:
        print('tries again')
        batch //= 2
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path, quiet_environment: dict[str, str]) -> Run:
    """``python train.py``, with the ``native`` of a run folder."""

    def started(*words: str, settings: dict[str, Any], **more: str) -> subprocess.CompletedProcess[str]:
        env = {**quiet_environment, **loaded(tmp_path, settings), **more, "COLUMNS": "200"}
        return subprocess.run(
            [sys.executable, "train.py", *words], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False
        )

    return started


@pytest.mark.slow
def test_a_script_trains_at_the_rung_goes_on_after_a_kill_and_does_the_rest_itself(
    run: Run, tmp_path: Path, shapes: Callable[..., ShapesData]
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    data = str(shapes(val=3).yaml)
    rung = {"micro_batch": 4, "tell": str(tmp_path / "kept_in"), "set": {"nbs": 8}}
    killed = run(data, settings=rung, DIE="1", CUDA_VISIBLE_DEVICES="")
    assert killed.returncode == 9, killed.stdout + killed.stderr
    assert f"nbs 8 __main__ {tmp_path / 'train.py'} \n" in killed.stdout, "at the rung, as the main program, on the cards it was given"
    kept = Path((tmp_path / "kept_in").read_text().strip())
    assert kept == tmp_path / "mine" and not (tmp_path / "after").exists()
    ended = run(data, settings={**rung, "set": {"nbs": 8, "resume": str(kept / "weights" / "last.pt")}})
    assert ended.returncode == 0, ended.stdout + ended.stderr
    with (kept / "results.csv").open() as rows:
        assert [row["epoch"] for row in csv.DictReader(rows)] == ["1", "2"]
    args = yaml.safe_load((kept / "args.yaml").read_text())
    assert (args["batch"], args["nbs"], args["epochs"]) == (8, 8, 2)
    assert (tmp_path / "after").read_text().split()[1] == "True"
    before = {one.name for one in tmp_path.iterdir()}
    again = run(data, settings={**rung, "trained": str(kept / "weights" / "best.pt")})
    assert again.returncode == 0 and "Starting training" not in again.stdout, again.stdout + again.stderr
    assert (tmp_path / "after").read_text().split()[1] == "False", "the script went on without a training"
    assert (kept / "final").is_dir() and {one.name for one in tmp_path.iterdir()} == before


def test_a_training_that_failed_is_not_tried_with_other_settings_though_the_script_would(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CATCHES)
    ended = run(settings={"set": {"batch": 4}})
    assert ended.returncode == 1 and "tries again" not in ended.stdout and "Traceback" in ended.stderr
