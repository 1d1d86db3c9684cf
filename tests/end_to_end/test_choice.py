"""The rung that `fit` chooses is the one found by really trying rungs one after the other from the top, each in a fresh process.

One budget for each ladder; `make fit` holds searches against all rungs over many asks and budgets.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from launcher.machine import headroom
from tests.conftest import write_yolo_dataset
from tests.helpers.places import ROOT

RECIPE = """# @package _global_
ask: {model: yolov8n.yaml, micro_batch: 8, accumulation: 1, image_size: 160, checkpointing: false}
trainer: {args: {epochs: 1, optimizer: AdamW, plots: false}}
ladder: {wheels: {micro_batch: {values: [4]}, image_size: {values: [96]}}}
device: {kind: cpu}
trial: {proof_timeout_s: 0}  # tests/trainers/ultralytics/test_same.py runs the twins
"""
ASKS = (
    ("ask.micro_batch=16", "ask.image_size=256", "ladder.order=[micro_batch,image_size]"),
    ("ask.micro_batch=12", "ask.image_size=256", "ladder.order=[micro_batch,checkpointing]"),
    ("ask.micro_batch=4", "ask.image_size=288", "ladder.order=[checkpointing,image_size]"),
)
NOISE = 0.06
"""What a rung needs differs by up to a twentieth between processes of 250 MiB (a thread's stack more or less): a budget
nearer to a need than that has no right answer, which is what ``device.headroom`` is for."""


def in_the_widest_gap(needs: list[int]) -> int:
    """A cap that some rung fits and another doesn't, as far from every need as there is one."""
    low, high = max(itertools.pairwise(sorted(needs)), key=lambda pair: pair[1] / pair[0])
    assert high > low * (1 + 2 * NOISE), needs
    return (low + high) // 2


def autofit(place: Path, *words: str) -> dict[str, Any]:
    argv = [sys.executable, "-m", "launcher", *words, "recipe=small", "data=dataset/data.yaml", "--json"]
    done = subprocess.run(
        argv, cwd=place, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=1200, check=False
    )
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def by_hand(place: Path, rungs: int, *words: str) -> dict[int, str]:
    """Verdicts from the top to the first rung that fits."""
    verdicts: dict[int, str] = {}
    for index in range(rungs):
        verdicts[index] = autofit(place, "trial", *words, f"rung={index}")["verdict"]
        if verdicts[index] == "fits":
            break
    return verdicts


@pytest.mark.slow
@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: ",".join(word.split("=")[1] for word in ask))
def test_fit_chooses_what_trying_rungs_by_hand_finds(tmp_path: Path, ask: tuple[str, ...]) -> None:
    write_yolo_dataset(tmp_path / "dataset", train=24, val=8, size=160)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "small.yaml").write_text(RECIPE)
    rungs = len(autofit(tmp_path, "ladder", *ask)["rungs"])
    needs = [autofit(tmp_path, "trial", *ask, "device.memory=3GiB", f"rung={index}")["peak_bytes"] for index in range(rungs)]
    budget = f"device.memory={headroom.budget_for(in_the_widest_gap(needs), headroom.DEFAULT['cpu'])}"
    tried = by_hand(tmp_path, rungs, *ask, budget)
    assert set(tried.values()) == {"fits", "out_of_memory"}, (needs, tried)
    said = autofit(tmp_path, "fit", *ask, budget, "trial.fresh=true")
    assert said["rung_index"] == max(tried), (budget, needs, tried, said["trials"])
    assert all(tried.get(one["rung_index"], one["verdict"]) == one["verdict"] for one in said["trials"]), "a trial repeats"
