"""A script whose layers repeat, in less memory than it needs: they are computed again, and its weights are the plain run's."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import answer, autofit
from tests.helpers.places import SCRIPTS

pytestmark = pytest.mark.slow
ALONE = ("--checkpointing", "ladder.order=[checkpointing]", "ladder.search=walk", "device=cpu", "--json")
"""No smaller micro-batch, so that dropout draws what it draws in the plain run."""


def launched(place: Path, memory: str, *words: str) -> tuple[dict[str, Any], str]:
    """(the record, what was said)"""
    shutil.copy(SCRIPTS / "repeats.py", place / "train.py")
    done = autofit("run", *ALONE, f"device.memory={memory}", "--", sys.executable, "train.py", *words, cwd=place, timeout=900)
    return answer(done), done.stderr


def test_the_layers_are_computed_again_and_the_weights_are_the_plain_runs(tmp_path: Path) -> None:
    import torch

    said, told = launched(tmp_path, "146MiB", "--out", str(tmp_path / "checkpointed.pt"))
    assert said["status"] == "done", told[-3000:]
    (asked, lower) = said["trials"]
    assert (asked["verdict"], lower["verdict"], said["rung_index"]) == ("out_of_memory", "fits", 1)
    assert "checkpointing: 6 of 6 TransformerEncoderLayer in body.layers computed again" in told
    assert said["same_training"]["gradient"] == "proven" and said["same_training"]["seconds"] > 0, "twins with and without it"
    assert "CHECKPOINTING=1" in said["command"] and "native/checkpointing" in said["command"]
    assert lower["peak_bytes"] < 0.75 * asked["peak_bytes"]
    subprocess.run([sys.executable, "train.py", "--out", "plain.pt"], cwd=tmp_path, check=True)
    plain, checkpointed = (torch.load(tmp_path / name) for name in ("plain.pt", "checkpointed.pt"))
    assert max(float((plain[name] - checkpointed[name]).abs().max()) for name in plain) < 1e-5

    native = next((tmp_path / "runs").glob("*/*/native/checkpointing"))
    env, alone = {"PYTHONPATH": str(native), "CHECKPOINTING": "1"}, [sys.executable, "train.py", "--out", "all.pt"]
    subprocess.run(alone, cwd=tmp_path, env=env, check=True)
    assert all(torch.equal(value, plain[name]) for name, value in torch.load(tmp_path / "all.pt").items()), "without autofit"
