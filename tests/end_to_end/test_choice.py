"""The rung that `fit` chooses is the one found by really trying *every* rung, each in a fresh process, one after the other."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import write_yolo_dataset
from tests.helpers.places import ROOT

RECIPE = """# @package _global_
ask: {model: yolov8n.yaml, micro_batch: 8, accumulation: 1, image_size: 160, checkpointing: false}
trainer: {args: {epochs: 1, optimizer: AdamW, plots: false}}
ladder: {wheels: {micro_batch: {floor: 2}, image_size: {values: [96]}}}
device: {kind: cpu}
"""
ASKS = (
    ("ask.micro_batch=16", "ask.image_size=256", "ladder.order=[micro_batch,image_size]"),
    ("ask.micro_batch=12", "ask.image_size=256", "ladder.order=[micro_batch,checkpointing]"),
    ("ask.micro_batch=8", "ask.image_size=288", "ladder.order=[checkpointing,image_size]"),
)
NOISE = 0.06
"""What a rung needs differs by up to a twentieth between processes of 250 MiB (a thread's stack more or less): a budget
nearer to a need than that has no right answer, which is what ``device.headroom`` is for."""


def budgets(needs: list[int]) -> list[int]:
    """A budget below every need, one in the middle of each gap between needs that is wider than the noise, and one above them all."""
    ordered = sorted(needs)
    gaps = [(low + high) // 2 for low, high in itertools.pairwise(ordered) if high - low > 2 * NOISE * low]
    return [int(ordered[0] * (1 - 2 * NOISE)), *gaps, int(ordered[-1] * (1 + 2 * NOISE))]


def autofit(place: Path, *words: str) -> dict[str, Any]:
    argv = [sys.executable, "-m", "launcher", *words, "recipe=small", "data=dataset/data.yaml", "--json"]
    done = subprocess.run(
        argv, cwd=place, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=1200, check=False
    )
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: ",".join(word.split("=")[1] for word in ask))
def test_fit_chooses_what_trying_every_rung_by_hand_finds(tmp_path: Path, ask: tuple[str, ...]) -> None:
    write_yolo_dataset(tmp_path / "dataset", train=24, val=8, size=160)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "small.yaml").write_text(RECIPE)
    rungs = autofit(tmp_path, "ladder", *ask)["rungs"]
    needs = [autofit(tmp_path, "trial", *ask, "device.memory=3GiB", f"rung={index}")["peak_bytes"] for index in range(len(rungs))]
    for cap in budgets(needs):
        budget = f"device.memory={int(cap / 0.9)}"
        verdicts = [autofit(tmp_path, "trial", *ask, budget, f"rung={rung['rung_index']}")["verdict"] for rung in rungs]
        assert set(verdicts) <= {"fits", "out_of_memory"}, verdicts
        by_hand = verdicts.index("fits") if "fits" in verdicts else None
        said = autofit(tmp_path, "fit", *ask, budget, "trial.fresh=true")
        tried = {trial["rung_index"]: trial["verdict"] for trial in said["trials"]}
        assert said["rung_index"] == by_hand, (budget, needs, verdicts, tried)
        assert all(verdicts[index] == verdict for index, verdict in tried.items()), "a trial repeats"
