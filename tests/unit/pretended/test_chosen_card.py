"""A full run trains on the card of its trial, whatever a trainer or a script sets CUDA_VISIBLE_DEVICES to; on two pretended cards."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.command_line import answer, autofit
from tests.helpers.pretended import needs_a_pretended_card, played
from tests.trainers.ultralytics.conftest import loaded

pytestmark = needs_a_pretended_card
ASKED_EARLY = "import json, torch; print(json.dumps([str(torch.cuda.get_device_properties(i).uuid) for i in range(2)]))"
OLDER = """
import os
import torch
from ultralytics import YOLO
os.environ["CUDA_VISIBLE_DEVICES"] = "0"  # as select_device("0") does before Ultralytics 8.4.100
print(torch.cuda.get_device_properties(0).uuid)
"""
SCRIPT = """
import argparse, os
import torch
from torch.utils.data import DataLoader, TensorDataset
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
batch = parser.parse_args().batch_size
model = torch.nn.Linear(16, 1)
os.environ["CUDA_VISIBLE_DEVICES"] = "{card}"
model.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(4):
    for (rows,) in DataLoader(TensorDataset(torch.randn(64, 16)), batch_size=batch, shuffle=True):
        optimizer.zero_grad()
        model(rows.cuda()).pow(2).mean().backward()
        optimizer.step()
"""


@pytest.fixture(scope="module")
def two() -> Iterator[dict[str, str]]:
    with played(count=2) as environment:
        yield environment


@pytest.fixture(scope="module")
def uuids(two: dict[str, str]) -> list[str]:
    done = subprocess.run([sys.executable, "-c", ASKED_EARLY], env=two, capture_output=True, text=True, timeout=120, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def test_an_older_ultralytics_trains_on_the_card_that_was_chosen(two: dict[str, str], uuids: list[str], tmp_path: Path) -> None:
    told = {**two, **loaded(tmp_path, {}), "CUDA_VISIBLE_DEVICES": f"GPU-{uuids[1]}"}
    done = subprocess.run([sys.executable, "-c", OLDER], env=told, capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout.split()[-1:] == [uuids[1]], done.stderr


@pytest.mark.parametrize(("card", "refused"), [("0", True), ("1", False)])
def test_a_script_that_names_another_card_is_refused(card: str, refused: bool, two: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.format(card=card))
    words = ("run", "--json", "device=cuda", "device.index=1", "--", sys.executable, "train.py")
    done = autofit(*words, cwd=tmp_path, **{**two, "COLUMNS": "200"})
    said = done.stdout + done.stderr
    assert ("something in it sets CUDA_VISIBLE_DEVICES" in " ".join(said.split())) is refused, said[-3000:]
    assert (done.returncode == 0) is not refused, said[-3000:]
    if not refused:
        record = answer(done)
        assert "CUDA_VISIBLE_DEVICES=1" in record["command"] and record["run"]["optimizer_steps"] == 32, "a held run counts them"
        assert 0.9 < record["memory"]["run_peak_bytes"] / record["memory"]["trial_peak_bytes"] < 1.03
