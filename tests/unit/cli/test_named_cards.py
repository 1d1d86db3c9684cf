"""People's own words for cards, in a command that starts a process for each itself -> the cards of its recipe."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.cli import recognise
from tests.helpers.nvml_stand_in import FakeCard, FakeNvml

SCRIPT = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
"""


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with a script, on a machine with four cards."""
    cards = [FakeCard(uuid=f"GPU-{number}1111111-0000-4000-8000-000000000000") for number in range(4)]
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(*cards))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    Path("train.py").write_text(SCRIPT, encoding="utf-8")
    return tmp_path


def device(*words: str) -> Mapping[str, Any]:
    return recognise.understand(words).device


@pytest.mark.parametrize(("line", "said"), [
    ("torchrun --nproc_per_node=2 train.py", {"cards": 2}), ("torchrun --nproc_per_node=gpu train.py", {"cards": 4}),
    ("accelerate launch --num_processes 2 --gpu_ids 2,3 train.py", {"cards": [2, 3]}), ("accelerate launch --num_processes 1 train.py", {}),
    ("python train.py", {}),
])  # fmt: skip
def test_a_launchers_words_name_the_cards(four: Path, line: str, said: Mapping[str, Any]) -> None:
    assert device(*line.split()) == said


def test_a_machine_without_cards_names_none(four: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autofit_launcher.machine.devices.chosen_kind", lambda kind: "cpu")
    assert device("torchrun", "--nproc_per_node=2", "train.py") == {}
