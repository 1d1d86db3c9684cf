"""A script that its owner edits between a launch and its resumption: what moved is found again, another training is refused."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from launcher.trainers.script import recognise
from launcher.trainers.script.adapter import ScriptAdapter
from tests.helpers.loader_scripts import HEAD, recipe_of

IN_A_CLASS = HEAD + "class Config:\n    batch = 16\n\ndef made(config): return DataLoader(data, config.batch)\ntrain(made(Config()))\n"
ACCUMULATES = HEAD + "C = {'batch': 16, 'accumulation': 2}\ntrain(DataLoader(data, C['batch'], shuffle=True), C['accumulation'])\n"
TRAINER = (
    "from transformers import Trainer, TrainingArguments\nB = 16\n"
    "args = TrainingArguments('out', per_device_train_batch_size=B)\nTrainer(model, args, train_dataset=data).train()\n"
)
DECLARED = (
    "import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int, default=16)\n"
    "p.add_argument('--accumulation', type=int, default=1)\n"
)


@pytest.mark.parametrize(
    ("source", "edit", "found"),
    [
        (IN_A_CLASS, ("batch = 16", "batch = 8"), "made for micro_batch 16, and it is 8 now"),
        (IN_A_CLASS, ("class Config", "import time\nclass Config"), ""),
        (ACCUMULATES, ("'accumulation': 2", "'accumulation': 4"), "made for accumulation 2, and it is 4 now"),
        (ACCUMULATES, ("lr=0.1", "lr=0.2"), ""),
        (TRAINER, ("B = 16", "B = 12"), "made for micro_batch 16, and it is 12 now"),
        (TRAINER, ("'out'", "'other'"), ""),
        (DECLARED, ("default=16", "default=64"), "made for micro_batch 16, and it is 64 now"),
    ],
)
def test_another_batch_in_an_edited_script_is_refused_and_any_other_edit_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, edit: tuple[str, str], found: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(source)
    adapter = ScriptAdapter(recipe_of(recognise.understand([sys.executable, "train.py"])))
    launched = time.time() + 5
    assert adapter.changed(since=launched, read={}).faults == ()
    Path("train.py").write_text(source.replace(*edit))
    os.utime("train.py", (launched + 1, launched + 1))
    said = " ".join(map(str, adapter.changed(since=launched, read={}).faults))
    assert (found in said and "launch the command anew" in said) if found else said == ""
