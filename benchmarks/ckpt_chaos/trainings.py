"""A training's name -> its folder with data and recipe, its checkpoints, and its last weights."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import yaml

from benchmarks.common.weights import last
from benchmarks.faults import places

TRAININGS = ("script", "script_one_file", "script_of_trainer", "text", "yolo")
CHECKPOINTS = {"script": "epoch*.pt", "script_of_trainer": "checkpoint-*", "text": "checkpoint-*"}
"""Each kept beside those before it, with its step in its name; the others write over the one that they have."""
EPOCHS = {"script": 3, "script_one_file": 3, "yolo": 3}
STEPS, EVERY = {"text": 12, "script_of_trainer": 15}, {"text": 4, "script_of_trainer": 5}
"""Three checkpoints of each, so that most crash points lie behind the first."""


def make(training: str, place: Path) -> None:
    """The person's folder."""
    places.make({"text": "text", "yolo": "yolo"}.get(training, "script"), place)
    if training == "script_of_trainer":
        shutil.copyfile(Path(__file__).with_name("hf.py"), place / "train.py")
    text = yaml.safe_dump(recipe(training), sort_keys=False)
    (place / "recipes" / "night.yaml").write_text(f"# @package _global_\n{text}", encoding="utf-8")


def recipe(training: str) -> dict[str, Any]:
    if training in ("text", "yolo"):
        found = places.recipe(training, "none", {})
        if training == "text":
            found["trainer"]["args"]["set"] |= {"--max_steps": STEPS["text"]}
        else:
            found["trainer"]["args"] |= {"epochs": EPOCHS["yolo"], "workers": 0}
        return found
    device = {"kind": "cpu", "memory": "2GiB"}
    return {"device": device, "run": {"root": "runs"}, **_script(training)}


def _script(training: str) -> dict[str, Any]:
    words = {
        "script": ["--epochs", str(EPOCHS["script"]), "--pause", "0", "--width", "32"],
        "script_one_file": ["--epochs", str(EPOCHS["script_one_file"]), "--pause", "0", "--width", "32", "--one-file"],
        "script_of_trainer": ["--steps", str(STEPS["script_of_trainer"])],
    }[training]
    newest = {"script": "epoch*.pt", "script_one_file": "last.pt", "script_of_trainer": "checkpoint-*"}[training]
    args = {
        "command": [sys.executable, "train.py", *words],
        "spelled": {"micro_batch": "--batch-size", "accumulation": "--accum"},
        "set": {"--out": "{run}"},
        "reads": [],
        "resume": {"words": "--resume {checkpoint}", "newest": f"{{run}}/{newest}"},
    }
    ladder = {"order": ["micro_batch"], "wheels": {"micro_batch": {"values": [8, 4]}}}
    return {"ask": {"micro_batch": 16, "accumulation": 1}, "trainer": {"adapter": "script", "args": args}, "ladder": ladder}


def weights(training: str, out: Path) -> dict[str, Any]:
    """The last weights of the run in ``out``: name -> tensor, of floating point. Raises whatever a file that isn't there raises."""
    files = {
        "script_of_trainer": f"checkpoint-{STEPS.get(training)}/model.safetensors",
        "script_one_file": "last.pt",
        "script": f"epoch{EPOCHS.get(training, 0) - 1}.pt",
    }
    return last(next((out / "runs").glob("*/run")), training, file=files.get(training, ""))


def came_to(training: str, out: Path) -> int:
    """Checkpoint intervals that a run has trained through, as it has said itself or as the names of what it saves say, whole or not."""
    run = next((out / "runs").glob("*/run"), out)
    if training == "yolo":
        rows = (run / "results.csv").read_text(encoding="utf-8").splitlines() if (run / "results.csv").exists() else [""]
        return max(0, len(rows) - 1)
    if training in EVERY:
        return max((_number(path) for path in run.glob("checkpoint-*")), default=0) // EVERY[training]
    return len(re.findall("^saving$", _logs(out), re.MULTILINE))


def went_on_from(training: str, out: Path) -> int:
    """Checkpoint intervals that the last attempt had no need to train again; 0 where it began anew."""
    record = next((out / "runs").glob("*/record.json"))
    checkpoint = json.loads(record.read_text(encoding="utf-8"))["attempts"][-1].get("checkpoint") or {}
    if not checkpoint:
        return 0
    if training in EVERY:
        return _number(Path(checkpoint["path"])) // EVERY[training]
    return int(checkpoint["done"]) if training == "yolo" else int(re.findall(r"going on from epoch (\d+)", _logs(out))[-1])


def _logs(out: Path) -> str:
    logs = sorted((out / "runs").glob("*/run.stdout*.log"), key=lambda path: path.stat().st_mtime)
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in logs)


def _number(path: Path) -> int:
    return int(path.name.rpartition("-")[2])
