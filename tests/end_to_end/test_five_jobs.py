"""The five jobs that people fought by hand (tests/data/jobs, at a size for CPUs), each launched as its owner launches it, below its need.

One command, no edit: what is asked is understood, the rung that fits keeps its effective batch, the training comes to its end, and git has
nothing to say of the person's folder but what the training itself leaves.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import write_yolo_dataset
from tests.helpers.command_line import answer, autofit
from tests.helpers.hf_data import make_spoken
from tests.helpers.places import EXAMPLES, ROOT

JOBS = ROOT / "tests" / "data" / "jobs"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One launch."""

    folder: str
    command: tuple[str, ...]
    asked: dict[str, Any]
    effective_batch: int
    memory: str
    words: tuple[str, ...] = ()
    """Overrides beside it."""
    said: tuple[str, ...] = ()
    """What the screen says of it."""
    leaves: tuple[str, ...] = ()
    """Beginnings of what git lists afterwards: the training's own."""


YOLO_LEAVES = ("runs/", "detect/", "datasets/merged_all/labels/", "data/labels/", "component/labels/", "results/")
CASES = {
    "captcha": Job(
        folder="captcha", command=("python", "scripts/train_yolov8.py", "--data", "datasets/merged_all/dataset.yaml"),
        asked={"micro_batch": 16, "image_size": 96}, effective_batch=64, memory="400MiB", leaves=YOLO_LEAVES,
        said=("micro_batch      16       batch",),
    ),
    "garbage": Job(
        folder="garbage", command=("python3", "scripts/train_yolov8_safe.py"), asked={"micro_batch": 64, "image_size": 96},
        effective_batch=64, memory="400MiB", leaves=YOLO_LEAVES, words=("ask.micro_batch=64",),  # of its four cards' one CPU has all
    ),
    "component": Job(
        folder="component", command=("python", "scripts/train_yolo11.py"), asked={"micro_batch": 32}, effective_batch=64,
        memory="340MiB", leaves=YOLO_LEAVES, said=("micro_batch      32       batch=",),
    ),
    "whisper": Job(
        folder="whisper", command=("python", "scripts/train_breeze.py"), asked={"micro_batch": 16, "val_micro_batch": 16},
        effective_batch=16, memory="160MiB", leaves=("whisper-breeze/",), said=("call:per_device_train_batch_size",),
    ),
    "separator": Job(
        folder="separator", command=("python", "training/train.py", "--config", "configs/short.yaml"),
        asked={"micro_batch": 16, "segment": 16000}, effective_batch=16, memory="384MiB", leaves=("runs/",),
        said=("config:training.batch_size",),
    ),
}  # fmt: skip


def make(name: str, place: Path) -> None:
    """The person's folder, as a git repository."""
    if name == "separator":
        shutil.copytree(EXAMPLES / "separator", place, ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run([sys.executable, "make_music.py", "data/songs"], cwd=place, check=True)
        shorter = (place / "configs" / "demo.yaml").read_text().replace("epochs: 6", "epochs: 1").replace("_epoch: 128", "_epoch: 64")
        (place / "configs" / "short.yaml").write_text(shorter)
    else:
        shutil.copytree(JOBS / name, place)
    if name == "captcha":
        write_yolo_dataset(place / "datasets" / "merged_all", train=40, val=12, size=96).rename(place / "datasets/merged_all/dataset.yaml")
        _weights(place / "yolov8n.pt")
    if name == "garbage":
        write_yolo_dataset(place / "data", train=80, val=12, size=96).rename(place / "data" / "garbage.yaml")
        _weights(place / "weights" / "yolov8n.pt")
    if name == "component":
        write_yolo_dataset(place / "component", train=70, val=12, size=96)
    if name == "whisper":
        make_spoken(place / "data", train=64, validation=12)
        (place / "models").mkdir()
        (place / "data" / "model").rename(place / "models" / "breeze")
    for words in (("init", "-q"), ("add", "-A"), ("-c", "user.name=me", "-c", "user.email=me@here", "commit", "-qm", "mine")):
        subprocess.run(["git", *words], cwd=place, check=True)


def _weights(path: Path) -> None:
    from ultralytics import YOLO

    path.parent.mkdir(exist_ok=True)
    YOLO("yolov8n.yaml").save(str(path))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_job_as_its_owner_has_it_is_fitted_and_run_to_its_end(name: str, tmp_path: Path) -> None:
    job, place, home = CASES[name], tmp_path / "mine", tmp_path / "home"
    (tmp_path / "home" / ".config" / "Ultralytics").mkdir(parents=True)
    settings = {"settings_version": "0.0.8", "sync": False, "tensorboard": False, "runs_dir": str(place / "runs")}
    (home / ".config" / "Ultralytics" / "settings.json").write_text(json.dumps(settings))
    make(job.folder, place)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {"PATH": path, "HOME": str(home), "YOLO_OFFLINE": "1", "HF_HUB_OFFLINE": "1"}
    done = autofit(
        "run", "device=cpu", f"device.memory={job.memory}", *job.words, "--json", "--", *job.command, cwd=place, timeout=1500, **env
    )
    said = answer(done)
    assert (done.returncode, said["status"]) == (0, "done"), done.stderr[-3000:]
    assert all(one in done.stderr for one in job.said), done.stderr[:3000]
    asked = json.loads((Path(said["run_dir"]) / "record.json").read_text())["given_up"]
    assert said["rung_index"] > 0 and said["rung"]["micro_batch"] <= job.asked["micro_batch"], asked
    assert all(asked.get(key, {"asked": value})["asked"] == value for key, value in job.asked.items())
    assert (said["effective_batch"], said["effective_batch_asked"]) == (job.effective_batch,) * 2
    status = subprocess.run(["git", "status", "--porcelain", "-uall"], cwd=place, capture_output=True, text=True, check=True).stdout
    listed = [line[3:] for line in status.splitlines()]
    assert all(line.startswith("??") for line in status.splitlines()), "nothing of the person's was changed"
    assert not [path for path in listed if not path.startswith(job.leaves) or "__pycache__" in path or "autofit" in path], listed
