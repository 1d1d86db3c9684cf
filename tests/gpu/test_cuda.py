"""What a trial does on a real card. Run by `make gpu-check CASE=tests`. Whole recipes on played cards are that target's cases B to F."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.common import card_memory
from autofit_launcher.machine import devices, nvml
from tests.conftest import write_yolo_dataset

_, absence = nvml.opened()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(absence is not None, reason=f"no GPU: {absence.found if absence else ''}"),
]


def autofit(cwd: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    """(exit status, the line of JSON, standard error)"""
    argv = [sys.executable, "-m", "autofit_launcher", *words, "--json"]
    done = subprocess.run(argv, cwd=cwd, env=None, capture_output=True, text=True, timeout=900, check=False)
    return done.returncode, json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_yolo_dataset(tmp_path / "dataset", train=64, val=16, size=640, dense=60)
    return tmp_path


def test_nothing_is_left_on_the_card_after_a_failed_trial(place: Path) -> None:
    budget = devices.find("cuda", headroom=0.1)
    words = (
        "recipe=yolo11l_rtx4080s_solder",
        "data=dataset/data.yaml",
        "ask.model=yolo11l.yaml",
        "rung=0",
        "device.memory=4GiB",
        "trainer.args.workers=0",
    )
    status, said, err = autofit(place, "trial", *words, "device=cuda")
    assert (status, said["verdict"]) == (3, "out_of_memory"), err
    free = devices.free_now(budget)
    assert free is not None and budget.free_bytes - free < card_memory.SETTLED_BYTES


def test_expandable_segments_are_on_where_a_rung_checkpoints(place: Path) -> None:
    words = ("recipe=yolo11l_rtx4080s_solder", "data=dataset/data.yaml", "ask.model=yolo11n.yaml", "ask.checkpointing=true", "rung=0")
    status, said, err = autofit(place, "trial", *words, "trainer.args.workers=0", "device=cuda")
    assert (status, said["verdict"]) == (0, "fits"), err
