"""The product as a person meets it: the real trainer, real failures under a real budget, on the CPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from autofit_launcher.machine import devices
from autofit_launcher.trainers.suite import snapshot
from tests.conftest import failed_above, launched_with, write_yolo_dataset
from tests.helpers.places import ROOT

SMALL = {
    "ask": {"model": "yolov8n.yaml", "micro_batch": 8, "accumulation": 1, "image_size": 160, "checkpointing": False},
    "trainer": {"args": {"epochs": 1, "warmup_epochs": 1.0, "optimizer": "AdamW", "plots": False}},
    "ladder": {"order": ["micro_batch", "image_size"], "wheels": {"micro_batch": {"floor": 2}, "image_size": {"values": [96]}}},
    "device": {"kind": "cpu", "memory": "2GiB"},
    "trial": {"proof_timeout_s": 0},  # tests/trainers/ultralytics/test_same.py runs the twins
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A person's folder with a data set, a recipe and Ultralytics settings of their own."""
    write_yolo_dataset(tmp_path / "dataset", train=16, val=8, size=160)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "small.yaml").write_text(f"# @package _global_\n{yaml.safe_dump(SMALL)}")
    config = tmp_path / "home" / "Ultralytics"
    config.mkdir(parents=True)
    (config / "settings.json").write_text(json.dumps({"settings_version": "0.0.8", "sync": True, "tensorboard": False}))
    return tmp_path


def start(place: Path, *words: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "YOLO_CONFIG_DIR": str(place / "home"), "YOLO_OFFLINE": "1"}
    argv = [sys.executable, "-m", "autofit_launcher", *words, "recipe=small", "data=dataset/data.yaml", "--json"]
    return subprocess.Popen(argv, cwd=place, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def autofit(place: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    """(exit status, the line of JSON, standard error)"""
    running = start(place, *words)
    out, err = running.communicate(timeout=300)
    return running.returncode, json.loads(out), err


PHASES = ["start", "setup", "train", "validate", "train_again", "finish"]
"""Of a trial of one epoch: nothing is gone on from there."""


def test_rungs_are_tried_alone_and_fit_walks_down_on_real_failures_and_touches_nothing_of_the_persons(place: Path) -> None:
    before = snapshot(place)
    alone = [autofit(place, "trial", f"rung={rung}") for rung in (0, 5)]
    for (status, tried, err), micro_batch in zip(alone, (8, 2), strict=True):
        assert status == 0, err
        assert (tried["verdict"], tried["rung"]["micro_batch"], tried["accumulation"]) == ("fits", micro_batch, 8 // micro_batch)
        assert [use["phase"] for use in tried["report"]["uses"]] == PHASES
    most, least = (tried["peak_bytes"] for _, tried, _ in alone)
    between = devices.budget_for((most + least) // 2, devices.DEFAULT["cpu"])  # halfway between what the first rung needs and the last
    status, said, err = autofit(place, "fit", f"device.memory={between}")
    assert status == 0, err
    assert said["status"] == "done" and said["effective_batch"] == 8
    assert failed_above(said) == {"out_of_memory"}
    assert {one["phase"] for one in said["trials"] if one["verdict"] != "fits"} <= {"train", "validate", "setup", "train_again"}
    (proven,) = (one for one in said["trials"] if one["rung_index"] == said["rung_index"])
    assert 0 < proven["peak_bytes"] <= devices.cap_of(between, devices.DEFAULT["cpu"]) * 1.02
    assert said["rung"]["micro_batch"] * said["accumulation"] == 8
    assert all(words in said["command"] for words in (f'"micro_batch": {said["rung"]["micro_batch"]}', "batch=8", "nbs=8"))
    after = {name: data for name, data in snapshot(place).items() if not name.startswith("runs/")}
    assert after == before, "data set, label caches, settings and folder are as they were"
    run_dir = Path(said["run_dir"])
    assert json.loads((run_dir / "record.json").read_text())["status"] == "done"
    assert not list(run_dir.rglob("scratch")) and not (run_dir / "trials" / "cache").exists() and not list(run_dir.rglob("*.pt"))
    *_, folder, words = (run_dir / "command.sh").read_text().splitlines()
    assert folder.startswith(f"cd {place}") and words.endswith(said["command"].removeprefix("yolo"))
    env = {"PATH": "/usr/bin:/bin", "HOME": str(place), "YOLO_CONFIG_DIR": str(place / "home"), "YOLO_OFFLINE": "1"}
    done = subprocess.run([run_dir / "command.sh"], cwd="/", env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-2000:]}"


def test_train_runs_to_the_end_and_records_it(place: Path) -> None:
    status, said, err = autofit(place, "train", "device.memory=2GiB")
    assert status == 0, err
    assert said["rung_index"] == 0 and said["given_up"] == {}
    assert said["command"].startswith("yolo detect train model=yolov8n.yaml")
    assert said["run"]["returncode"] == 0
    assert Path(said["results"]["checkpoints"]["last"]).is_relative_to(said["run_dir"])
    assert (len(said["trials"]), len(said["attempts"])) == (1, 1)
    assert "1 epochs completed" in err, "the trainer's own words pass through"
    memory = said["memory"]
    assert 0 < memory["run_peak_bytes"] <= memory["cap_bytes"] < memory["budget_bytes"] and memory["trial_peak_bytes"] > 0
    assert "1 epochs completed" in (Path(said["run_dir"]) / "run.stdout.log").read_text()
    lines = [json.loads(line) for line in (Path(said["run_dir"]) / "series.jsonl").read_text().splitlines()]
    last = lines[-1]
    assert (last["epoch"], last["epochs"], last["step"], last["steps"], last["done"]) == (1, 1, 2, 2, 1.0) and last["loss"] > 0
    assert max(line["peak_bytes"] for line in lines) == memory["run_peak_bytes"]


@pytest.mark.slow
def test_a_crash_that_is_not_memory_stops_at_once_with_the_trainers_own_words(place: Path) -> None:
    (place / "odd.yaml").write_text("nc: 3\nbackbone:\n  - [-1, 1, NoSuchLayer, [64]]\nhead: []\n")
    status, said, err = autofit(place, "train", "ask.model=odd.yaml")
    assert (status, said["status"], len(said["trials"])) == (4, "crashed", 1)
    assert "NoSuchLayer" in err and "Traceback" in err
    assert not (Path(said["run_dir"]) / "run").exists()


def test_a_signal_ends_the_trial_and_everything(place: Path) -> None:
    running = start(place, "train", "trainer.args.epochs=50")
    until = time.monotonic() + 300
    while not list(place.glob("runs/autofit/*/trials/*/report.json")) and time.monotonic() < until:
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=300)
    assert running.returncode == 130, err
    assert json.loads(out)["status"] == "interrupted"
    (record,) = place.glob("runs/autofit/*/record.json")
    assert json.loads(record.read_text())["status"] == "interrupted"
    assert not launched_with("YOLO_CONFIG_DIR", place) and not list(place.glob("runs/autofit/*/trials/*/scratch"))
