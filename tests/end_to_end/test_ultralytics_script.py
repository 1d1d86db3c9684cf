"""A script that trains with Ultralytics by a dict of its own, launched as its owner launches it: fitted, trained, gone on with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.machine import devices
from tests.conftest import write_yolo_dataset
from tests.helpers.places import ROOT

SCRIPT = """import argparse, json, os
from pathlib import Path
from torch.optim.optimizer import register_optimizer_step_post_hook
from ultralytics import YOLO

CONFIG = {'batch': 8, 'imgsz': 160, 'epochs': 3, 'warmup_epochs': 1.0, 'nbs': 16, 'optimizer': 'AdamW', 'plots': False, 'device': 'cpu'}
STEPS = []
register_optimizer_step_post_hook(lambda *_: STEPS.append(1))

def once(trainer):
    die_at = os.environ.get('DIE_AT') if os.environ.get('COMET_MODE') != 'disabled' else None  # not in a trial, whose process it is as well
    if die_at and trainer.epoch == 1 and trainer.save_dir.name == 'first' and not os.path.exists(die_at):
        Path(die_at).touch()
        os.kill(os.getpid(), 9)

def train(args):
    config = dict(CONFIG, data=args.data, project=os.path.abspath('runs/mine'), name='first')
    model = YOLO('yolov8n.yaml')
    model.add_callback('on_train_epoch_end', once)
    Path('begun.txt').write_text('begun')
    results = model.train(**config)
    score = float(model.val(data=args.data, device="cpu").box.map)
    Path("ended.json").write_text(json.dumps({"steps": len(STEPS), "map": score}))

if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--data')
    train(parser.parse_args())
"""
COMMAND = ["train.py", "--data", "dataset/data.yaml"]
SCRIPTS_OWN = {"begun.txt", "ended.json", "runs"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_yolo_dataset(tmp_path / "dataset", train=20, val=8, size=160)
    (tmp_path / "train.py").write_text(SCRIPT)
    config = tmp_path / "home" / "Ultralytics"
    config.mkdir(parents=True)
    (config / "settings.json").write_text(json.dumps({"settings_version": "0.0.8", "sync": True, "tensorboard": False}))
    return tmp_path


def ran(place: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    said = {**os.environ, "PYTHONPATH": str(ROOT), "YOLO_CONFIG_DIR": str(place / "home"), "YOLO_OFFLINE": "1", **env}
    return subprocess.run([sys.executable, *argv], cwd=place, env=said, capture_output=True, text=True, timeout=900, check=False)


def autofit(place: Path, *words: str, command: bool = True, **env: str) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    own = ["--", sys.executable, *COMMAND] if command else []
    done = ran(place, "-m", "autofit_launcher", *words, "device=cpu", "trial.proof_timeout_s=0", "--json", *own, **env)
    assert done.stdout.strip(), done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done


def persons(place: Path) -> set[str]:
    """What lies in the person's folder beside its data, its home and our run folder."""
    return {one.name for one in place.iterdir()} - {"dataset", "home", "autofit", "recipes"}


@pytest.mark.slow
def test_a_rung_below_the_scripts_own_batch_makes_the_plain_runs_steps_and_leaves_the_script_alone(place: Path) -> None:
    plain = ran(place, *COMMAND)
    assert plain.returncode == 0, plain.stderr
    steps = json.loads((place / "ended.json").read_text())["steps"]
    for own in ("begun.txt", "ended.json"):
        (place / own).unlink()
    recipe = ran(place, "-m", "autofit_launcher", "init", "--", sys.executable, *COMMAND)
    assert recipe.returncode == 0, recipe.stderr
    peaks = {}
    for rung in (0, 2):
        tried, done = autofit(place, "trial", "recipe=train", f"rung={rung}", "device.memory=2GiB", "run.root=autofit", command=False)
        assert tried["verdict"] == "fits", done.stderr
        peaks[rung] = tried["peak_bytes"]
    assert persons(place) == {"train.py", "runs"}, "neither trials nor the look at it leave anything"
    between = devices.budget_for((peaks[0] + peaks[2]) // 2, devices.DEFAULT["cpu"])
    said, done = autofit(place, "run", f"device.memory={between}", "run.root=autofit")
    assert (done.returncode, said["status"]) == (0, "done"), done.stderr
    assert said["rung"]["micro_batch"] < 8 and said["effective_batch"] == 16
    assert json.loads((place / "ended.json").read_text())["steps"] == steps
    assert persons(place) == {"train.py", *SCRIPTS_OWN} and (place / "train.py").read_text() == SCRIPT


@pytest.mark.slow
def test_a_killed_run_is_gone_on_with_by_starting_the_script_again(place: Path) -> None:
    said, done = autofit(place, "run", "device.memory=2GiB", "run.root=autofit", DIE_AT=str(place / "home" / "died"))
    assert (done.returncode, said["status"]) == (0, "done"), done.stderr
    assert (place / "home" / "died").exists() and len(said["attempts"]) == 2
    rows = (place / "runs" / "mine" / "first" / "results.csv").read_text().splitlines()
    assert [row.split(",")[0].strip() for row in rows[1:]] == ["1", "2", "3"]
    assert (place / "ended.json").exists()
