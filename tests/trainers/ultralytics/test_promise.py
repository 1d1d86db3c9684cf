"""A fit is a promise: full runs of unpleasant data, held against their trials in the trials' own measure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.engine.launch import REPORTED
from tests.helpers.command_line import autofit
from tests.helpers.nasty import make_nasty

SOLDER = ("recipe=yolo11l_rtx4080s_solder", "trainer.args.workers=0")


def launched(folder: Path, verb: str, *words: str) -> dict[str, Any]:
    """The record of one launch on the CPU, to its end."""
    env = {"YOLO_CONFIG_DIR": str(folder / "home"), "YOLO_OFFLINE": "1"}
    ran = autofit(verb, "device=cpu", f"run.root={folder / 'runs'}", *words, cwd=folder, timeout=580, **env)
    records = list((folder / "runs").rglob("record.json"))
    assert len(records) == 1, ran.stdout + ran.stderr
    record: dict[str, Any] = json.loads(records[0].read_text(encoding="utf-8"))
    return record


def asked(model: str, batch: int, size: int, *, accumulation: int = 1, **args: Any) -> list[str]:
    wheels = [f"ask.model={model}", f"ask.micro_batch={batch}", f"ask.accumulation={accumulation}", f"ask.image_size={size}"]
    return [*wheels, *(f"trainer.args.{key}={value}" for key, value in args.items())]


def assert_kept(record: dict[str, Any]) -> None:
    assert record["status"] == "done", record
    assert record["run"]["lost_to_memory"] == []
    assert record["memory"]["run_peak_bytes"] <= REPORTED * record["memory"]["trial_peak_bytes"], record["memory"]


@pytest.mark.slow
def test_a_run_of_many_shapes_needs_no_more_than_its_trial_had_shown(tmp_path: Path) -> None:
    data = make_nasty(tmp_path, train=14, val=7)  # 13 would leave a last batch of one, which Ultralytics refuses at 32 px
    words = asked("yolov8n.yaml", 4, 64, accumulation=2, epochs=3, close_mosaic=1)
    assert_kept(launched(tmp_path, "train", *SOLDER, f"data={_plain(data)}", "device.memory=2GiB", *words, "ask.multi_scale=0.5"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "model", "args"),
    [
        ("segment", "yolo11n-seg.yaml", {"epochs": 3, "close_mosaic": 1}),
        ("pose", "yolo11n-pose.yaml", {"epochs": 3, "close_mosaic": 1}),
        ("obb", "yolo11n-obb.yaml", {"epochs": 3, "close_mosaic": 1}),
        ("detect", "yolo11n.yaml", {"epochs": 1}),
        ("detect", "yolo11n.yaml", {"epochs": 2, "cache": "ram"}),
        ("detect", "yolo11n.yaml", {"epochs": 2, "rect": True}),
    ],
    ids=["segment", "pose", "obb", "one-epoch", "cached", "rect"],
)
def test_a_full_run_needs_no_more_than_its_trial_had_shown(tmp_path: Path, task: str, model: str, args: dict[str, Any]) -> None:
    data = make_nasty(tmp_path, task)
    assert_kept(
        launched(tmp_path, "train", *SOLDER, f"data={_plain(data)}", "device.memory=3GiB", *asked(model, 4, 160, accumulation=2, **args))
    )


def _plain(data: Path) -> Path:
    """The same file under a name that the command line takes as it is."""
    plain = data.parents[2] / "data.yaml"
    plain.write_text(data.read_text(encoding="utf-8"), encoding="utf-8")
    return plain
