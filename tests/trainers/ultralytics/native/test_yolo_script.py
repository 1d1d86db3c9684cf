"""A person's script, run by ``yolo_script.py`` alone: other settings where its training is asked for, everything else as it stands."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from launcher.trainers.ultralytics import environment
from tests.helpers.shapes import ShapesData

SCRIPT = """import os, pickle, sys
from pathlib import Path
from ultralytics import YOLO

class Mine: ...

def die(trainer):
    print('steps of', trainer.batch_size, __name__, __file__, os.environ.get('CUDA_VISIBLE_DEVICES'))
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
        batch //= 2
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path, quiet_environment: dict[str, str]) -> Run:
    """``yolo_script.py`` of a run folder, which has its own copy of ``native``, on ``train.py`` beside it."""
    native = Path(environment.__file__).parent / "native"
    runner = shutil.copytree(native, tmp_path / "native", ignore=shutil.ignore_patterns("__*")) / "yolo_script.py"
    env = {key: value for key, value in quiet_environment.items() if key != "PYTHONPATH"}

    def started(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        said = {**env, **more, "COLUMNS": "200"}
        return subprocess.run(
            [sys.executable, str(runner), *words], cwd=tmp_path, env=said, capture_output=True, text=True, timeout=300, check=False
        )

    return started


def test_a_script_trains_at_the_rung_goes_on_after_a_kill_and_does_the_rest_itself(
    run: Run, tmp_path: Path, shapes: Callable[..., ShapesData]
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    data = str(shapes(val=3).yaml)
    rung = ["--asked-batch", "8", "--asked-nbs", "16", "--given", "batch=8", "--tell", "kept_in", "batch=4"]
    killed = run(*rung, "--", "train.py", data, DIE="1", CUDA_VISIBLE_DEVICES="")
    assert killed.returncode == 9, killed.stdout + killed.stderr
    assert f"steps of 4 __main__ {tmp_path / 'train.py'} \n" in killed.stdout, "at the rung, as the main program, on the cards it was given"
    kept = Path((tmp_path / "kept_in").read_text().strip())
    assert kept == tmp_path / "mine" and not (tmp_path / "after").exists()
    ended = run(*rung, f"resume={kept / 'weights' / 'last.pt'}", "--", "train.py", data)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    with (kept / "results.csv").open() as rows:
        assert [row["epoch"] for row in csv.DictReader(rows)] == ["1", "2"]
    args = yaml.safe_load((kept / "args.yaml").read_text())
    assert (args["batch"], args["nbs"], args["epochs"]) == (4, 16, 2)
    assert (tmp_path / "after").read_text().split()[1] == "True"
    again = run(*rung, "--trained", str(kept / "weights" / "best.pt"), "--", "train.py", data)
    assert again.returncode == 0 and "Starting training" not in again.stdout, again.stdout + again.stderr
    assert (tmp_path / "after").read_text().split()[1] == "False", "the script went on without a training"


def test_a_training_that_failed_is_not_tried_with_other_settings_though_the_script_would(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CATCHES)
    ended = run("--given", "batch=64", "batch=4", "--", "train.py")
    assert ended.returncode == 1
    assert "the script gives batch=8 instead of 64" in ended.stderr and "another training after one that failed" in ended.stderr


def test_a_command_without_a_script_says_how_it_is_written(run: Run) -> None:
    ended = run("batch=4")
    assert ended.returncode == 2 and "-- train.py" in ended.stderr
