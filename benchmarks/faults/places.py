"""A trainer's name -> its data, its recipe, and how its progress, its checkpoints and its results are read from outside."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from autofit_launcher.history import series

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS: Mapping[str, Path] = {
    "script": ROOT / "tests" / "data" / "scripts" / "resumable.py",
    "folders": Path(__file__).parent / "scripts" / "folders.py",
    "ranks": Path(__file__).parent / "scripts" / "ranks.py",
}
EPOCHS, STEPS, EVERY = {"script": 8, "ranks": 8, "folders": 8, "yolo": 4}, 24, 4
SAVED = {"script": "epoch*.pt", "ranks": "epoch*.pt", "folders": "epoch_*"}
"""Checkpoints: one an epoch; of the text trainer one every EVERY of its STEPS."""
LOSS_OFF = {"script": 0.05, "yolo": 0.1, "text": 0.05, "ranks": 0.05, "folders": 0.05}
"""How far from an undisturbed run's the last loss may lie. YOLO draws its augmentation anew where it goes on, and four epochs are few."""
EFFECTIVE = {"script": 16, "yolo": 8, "text": 8, "ranks": 16, "folders": 16}
VALIDATING = {**dict.fromkeys(SCRIPTS, "validating"), "text": "eval|Evaluat|/5 ", "yolo": r"mAP50-95\)"}
"""What the trainer's log says last while it validates."""


def make(trainer: str, place: Path) -> None:
    """The person's folder: data and recipe."""
    (place / "recipes").mkdir(parents=True)
    if trainer in SCRIPTS:
        shutil.copyfile(SCRIPTS[trainer], place / "train.py")
    elif trainer == "yolo":
        _images(place / "data")
    else:
        _sums(place / "data")


def recipe(trainer: str, fault: str, recover: Mapping[str, Any]) -> dict[str, Any]:
    common = {"device": {"kind": "cpu", "memory": "2GiB"}, "recover": dict(recover), "run": {"root": "runs"}}
    return {**common, **(_script(trainer, fault) if trainer in SCRIPTS else {"yolo": _yolo, "text": _text}[trainer](fault))}


def _script(trainer: str, fault: str) -> dict[str, Any]:
    ranks = 2 if trainer == "ranks" else 1
    starts = [str(Path(sys.executable).with_name("torchrun")), "--nproc_per_node", "2"] if ranks > 1 else [sys.executable]
    command = [*starts, "train.py", "--epochs", str(EPOCHS[trainer]), "--pause", "0.2"]
    command += ["--workers", "1"] if fault in ("kill_worker", "small_shm") else ["--nan-from", "14"] if fault == "nan" else []
    args = {
        "command": command,
        "spelled": {"micro_batch": "--batch-size", "accumulation": "--accum"},
        "set": {"--out": "{run}"},
        "resume": {"words": "--resume {checkpoint}", "newest": f"{{run}}/{SAVED[trainer]}"},
    }
    if fault == "small_shm":
        args["spelled"] |= {"workers": "--workers"}
    ladder = {"order": ["micro_batch"], "wheels": {"micro_batch": {"values": [8 // ranks, 4 // ranks]}}}
    ask = {"micro_batch": 16 // ranks, "accumulation": 1, **({"workers": 1} if fault == "small_shm" else {})}
    return {"ask": ask, "trainer": {"adapter": "script", "args": args}, "ladder": ladder}


def _yolo(fault: str) -> dict[str, Any]:
    args = {"epochs": EPOCHS["yolo"], "warmup_epochs": 1.0, "optimizer": "AdamW", "plots": False}
    args |= {"workers": 1} if fault == "small_shm" else {}
    ask = {"model": "yolov8n.yaml", "micro_batch": 8, "accumulation": 1, "image_size": 96, "checkpointing": False}
    return {"data": "data/data.yaml", "ask": ask, "trainer": {"args": args}, "ladder": {"order": ["micro_batch"]}}


def _text(fault: str) -> dict[str, Any]:
    saving = {"save_strategy": "steps", "save_steps": EVERY, "eval_strategy": "steps", "eval_steps": EVERY, "logging_steps": 1}
    args = {"max_steps": STEPS, "packing": True, **saving}
    args |= {"dataloader_num_workers": 1} if fault == "small_shm" else {}
    ask = {"model": "data/model", "micro_batch": 8, "accumulation": 1, "sequence_length": 128, "val_micro_batch": 4, "checkpointing": False}
    trainer = {"args": {"set": {f"--{name}": value for name, value in args.items()}}}
    ladder = {"order": ["val_micro_batch", "micro_batch"]}
    return {"defaults": [{"override /trainer": "text"}, "_self_"], "data": "data", "ask": ask, "trainer": trainer, "ladder": ladder}


def progress(trainer: str, folder: Path) -> float:
    """The part of its checkpoints that a run has written."""
    run = folder / "run"
    if trainer in SCRIPTS:
        return len(list(run.glob(SAVED[trainer]))) / EPOCHS[trainer]
    if trainer == "yolo":
        rows = (run / "results.csv").read_text(encoding="utf-8").splitlines() if (run / "results.csv").exists() else [""]
        return (len(rows) - 1) / EPOCHS["yolo"]
    return len(list(run.glob("checkpoint-*/trainer_state.json"))) * EVERY / STEPS


def newest(trainer: str, folder: Path, corruption: str) -> Path | None:
    """The file of its newest checkpoint that holds the weights; for a flipped bit a file with checksums: nothing in the world would
    tell one in the weights that Trainer saves."""
    of_trainer = "checkpoint-*/optimizer.pt" if corruption == "flip" else "checkpoint-*/model.safetensors"
    pattern = {**SAVED, "yolo": "weights/last.pt", "text": of_trainer}[trainer]
    return max((folder / "run").glob(pattern), key=lambda path: path.stat().st_mtime, default=None)


def saving(trainer: str, folder: Path) -> bool:
    """Whether a checkpoint is just being written."""
    if trainer == "text":
        return any(not (place / "trainer_state.json").exists() for place in (folder / "run").glob("checkpoint-*"))
    if trainer == "folders":
        return any(not (place / "custom_checkpoint_0.pkl").exists() for place in (folder / "run").glob(SAVED[trainer]))
    if trainer == "yolo":
        return any((folder / "run" / "weights").glob(".*.being-saved"))
    log = max(folder.glob("run.stdout*.log"), key=lambda path: path.stat().st_mtime, default=folder / "run.stdout.log")
    return log.exists() and log.read_text(encoding="utf-8", errors="replace").rstrip().endswith("saving")


def came_to(trainer: str, folder: Path, attempts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the finished run says of itself: amount of training, checkpoint intervals done twice, effective batches that it used, its last
    loss."""
    run = folder / "run"
    if trainer in SCRIPTS:
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        epochs = [row["epoch"] for row in rows]
        whole = sorted(set(epochs)) == list(range(EPOCHS[trainer])) and rows[-1]["steps"] == EPOCHS[trainer] * 4
        return {
            "whole": whole,
            "repeated": len(epochs) - len(set(epochs)),
            "batches": sorted({row["batch"] for row in rows}),
            "loss": rows[-1]["loss"],
        }
    if trainer == "yolo":
        with (run / "results.csv").open(encoding="utf-8") as file:
            said = [{key.strip(): value for key, value in row.items()} for row in csv.DictReader(file)]
        epochs = [row["epoch"].strip() for row in said]
        nbs = next(line for line in (run / "args.yaml").read_text(encoding="utf-8").splitlines() if line.startswith("nbs:"))
        return {
            "whole": len(set(epochs)) == EPOCHS["yolo"],
            "repeated": len(epochs) - len(set(epochs)),
            "batches": [int(nbs.split()[1])],
            "loss": sum(float(value) for key, value in said[-1].items() if key.startswith("train/")),
        }
    state = json.loads((run / "trainer_state.json").read_text(encoding="utf-8"))
    told = json.loads((run / "all_results.json").read_text(encoding="utf-8"))
    batch = round(told["train_samples_per_second"] * told["train_runtime"] / STEPS)
    repeated = max((_steps_twice(folder, attempt) / EVERY for attempt in attempts[1:]), default=0.0)
    return {"whole": state["global_step"] == STEPS, "repeated": repeated, "batches": [batch], "loss": told["eval_loss"]}


def _steps_twice(folder: Path, attempt: Mapping[str, Any]) -> float:
    """Steps that an attempt did once more: those that the one before had told beyond the checkpoint it went on from."""
    told = [line.get("step") or 0 for line in series.read(folder / "series.jsonl") if line["at"] < attempt["began"]]
    return max(0.0, max(told, default=0) - (attempt["checkpoint"] or {"done": 0})["done"])


def _images(place: Path) -> None:
    generator = np.random.default_rng(0)
    for split, count in (("train", 32), ("val", 8)):
        (place / "images" / split).mkdir(parents=True)
        (place / "labels" / split).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(generator.integers(0, 255, (96, 96, 3), dtype=np.uint8)).save(place / "images" / split / f"{number}.jpg")
            rows = [
                f"{generator.integers(3)} " + " ".join(f"{value:.4f}" for value in (*generator.uniform(0.2, 0.8, 2), 0.2, 0.2))
                for _ in range(4)
            ]
            (place / "labels" / split / f"{number}.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (place / "data.yaml").write_text(f"path: {place}\ntrain: images/train\nval: images/val\nnames: [a, b, c]\n", encoding="utf-8")


def _sums(place: Path) -> None:
    from tests.helpers.hf_data import make_sums

    make_sums(place, train=200, validation=20)
