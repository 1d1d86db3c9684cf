"""A training's name -> its folder with data and recipe, and where its weights lie in the end."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import yaml

from benchmarks.common.rows import ROOT
from benchmarks.common.weights import last
from benchmarks.faults import places
from benchmarks.late_memory.cases import EVERY, STEPS, kind_of

SCRIPTS = Path(__file__).parent / "scripts"


def make(training: str, place: Path) -> None:
    """The person's folder."""
    kind = kind_of(training)
    places.make({"text": "text", "yolo": "yolo"}.get(kind, "script"), place)
    if kind == "text":  # as many rows as a training step has
        shutil.copyfile(place / "data" / "train.jsonl", place / "data" / "validation.jsonl")
    if kind == "script_of_trainer":
        shutil.copyfile(SCRIPTS / "hf.py", place / "train.py")
    if training == "text_dropout":
        config = place / "data" / "model" / "config.json"
        config.write_text(json.dumps({**json.loads(config.read_text(encoding="utf-8")), "attention_dropout": 0.1}), encoding="utf-8")
    for name, split in (("whole", True), ("restart", False)):
        text = yaml.safe_dump(recipe(training, split=split), sort_keys=False)
        (place / "recipes" / f"{name}.yaml").write_text(f"# @package _global_\n{text}", encoding="utf-8")


def recipe(training: str, *, split: bool) -> dict[str, Any]:
    own = {"text": _text, "yolo": _yolo}.get(kind_of(training), _script)(training)
    device = {"kind": "cpu", "memory": "2GiB"}
    return {"name": training, "device": device, "recover": {"split": split}, "run": {"root": "runs"}, **own}


def _text(training: str) -> dict[str, Any]:
    every = {"save_strategy": "steps", "save_steps": EVERY["text"], "eval_strategy": "steps", "eval_steps": EVERY["text"]}
    args = {"max_steps": STEPS["text"], "packing": True, "logging_steps": 1, **every}
    ask = {
        "model": "data/model",
        "micro_batch": 8,
        "accumulation": 1,
        "sequence_length": 128,
        "val_micro_batch": 16,
        "checkpointing": False,
    }
    ask |= {"precision": "bf16"} if training == "text_bf16" else {}
    order = {"order": ["val_micro_batch", "micro_batch"]}
    return {"data": "data", "ask": ask, "trainer": {"adapter": "transformers", "task": "text", "args": args}, "ladder": order}


def _yolo(training: str) -> dict[str, Any]:
    args = {"epochs": STEPS["yolo"] // EVERY["yolo"], "optimizer": "AdamW", "plots": False}
    ask = {"model": "yolov8n.yaml", "micro_batch": 8, "accumulation": 1, "image_size": 256, "checkpointing": False}
    return {"data": "data/data.yaml", "ask": ask, "trainer": {"args": args}, "ladder": {"order": ["micro_batch"]}}


def _script(training: str) -> dict[str, Any]:
    if kind_of(training) == "plain":
        words = ["--epochs", str(STEPS["plain"] // EVERY["plain"]), "--pause", "0", "--width", "512"]
        newest = "{run}/epoch*.pt"
    else:
        words = ["--steps", str(STEPS["script_of_trainer"]), "--dropout", "0.1" if training.endswith("_dropout") else "0.0"]
        newest = "{run}/checkpoint-*"
    args = {
        "command": [sys.executable, "train.py", *words],
        "spelled": {"micro_batch": "--batch-size", "accumulation": "--accum"},
        "set": {"--out": "{run}"},
        "reads": [],
        "resume": {"words": "--resume {checkpoint}", "newest": newest},
    }
    ladder = {"order": ["micro_batch"], "wheels": {"micro_batch": {"values": [8, 4]}}}
    return {"ask": {"micro_batch": 16, "accumulation": 1}, "trainer": {"adapter": "script", "args": args}, "ladder": ladder}


def weights(training: str, run: Path) -> dict[str, Any]:
    """The last weights of a run: name -> tensor, of floating point."""
    kind = kind_of(training)
    of_trainer = kind == "script_of_trainer"
    file = f"checkpoint-{STEPS[kind]}/model.safetensors" if of_trainer else f"epoch{STEPS['plain'] // EVERY['plain'] - 1}.pt"
    return last(run, kind, file=file)


PATH = (str(Path(__file__).parent / "strike"), str(ROOT))
"""What a launch has on PYTHONPATH."""
