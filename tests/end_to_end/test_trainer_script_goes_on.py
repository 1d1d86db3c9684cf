"""A Hugging Face script with no word for resuming is stopped, killed, and gone on with: its settings in a dict, or in its command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.command_line import answer, autofit
from tests.helpers.places import ROOT

SCRIPT = """import os, pathlib, time
import torch
from transformers import HfArgumentParser, Trainer, TrainerCallback, TrainingArguments

CONFIG = {"batch": 8, "steps": 8}

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return {"x": torch.rand(16, generator=torch.Generator().manual_seed(index)), "labels": torch.ones(1)}

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 1)
    def forward(self, x, labels):
        return {"loss": torch.nn.functional.mse_loss(self.layer(x), labels)}

class Fate(TrainerCallback):
    def on_step_begin(self, args, state, control, **_):
        if "TRAINER_KEPT_IN" not in os.environ:
            return  # a trial
        with open("steps.txt", "a") as file:
            file.write(f"{state.global_step + 1}\\n")
        while state.global_step == 3 and not os.path.exists("go"):
            time.sleep(0.1)
        if state.global_step == 6 and not os.path.exists("died"):
            pathlib.Path("died").touch()
            os.kill(os.getpid(), 9)

args = ARGUMENTS
trainer = Trainer(Net(), args, train_dataset=Data(), callbacks=[Fate()])
trainer.train()
print("steps", trainer.state.global_step, flush=True)
"""

IN_SOURCE = """TrainingArguments("out", per_device_train_batch_size=CONFIG["batch"], max_steps=CONFIG["steps"], save_steps=2,
                         logging_steps=1, report_to=[], use_cpu=True, disable_tqdm=True, warmup_steps=2)"""
PARSED = "HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()[0]"
WORDS = """--output_dir out --per_device_train_batch_size 8 --max_steps 8 --save_steps 2 --logging_steps 1 --report_to none --use_cpu
           --disable_tqdm true --warmup_steps 2"""


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "words"), [(IN_SOURCE, ""), (PARSED, WORDS)], ids=["in the source", "in the command"])
def test_a_trainer_script_is_resumed_after_a_stop_and_after_a_kill(arguments: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.replace("ARGUMENTS", arguments))
    argv = [sys.executable, "-m", "launcher", "run", "--json", "device=cpu", "device.memory=2GiB", "--", sys.executable, "train.py"]
    argv += words.split()
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(argv, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as launch:
        until = time.monotonic() + 500
        while not _reached(tmp_path, 4) and launch.poll() is None and time.monotonic() < until:
            time.sleep(0.2)
        launch.send_signal(signal.SIGTERM)
        out, errors = launch.communicate(timeout=120)
    assert launch.returncode == 75, errors[-3000:]
    run = json.loads(out.splitlines()[-1])["run_dir"]
    (tmp_path / "go").touch()
    done = autofit("resume", run, "--json", cwd=tmp_path, timeout=500)
    said = answer(done)
    assert (done.returncode, said["status"]) == (0, "done"), done.stderr[-3000:]
    assert (tmp_path / "steps.txt").read_text().split() == ["1", "2", "3", "4", "3", "4", "5", "6", "7", "7", "8"]
    assert "steps 8" in done.stderr and len(said["trials"]) == 1


def _reached(place: Path, step: int) -> bool:
    path = place / "steps.txt"
    return path.exists() and str(step) in path.read_text().split()
