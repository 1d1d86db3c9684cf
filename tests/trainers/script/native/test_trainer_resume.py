"""A script with Hugging Face's Trainer goes on from a checkpoint though it has no word for that, also at another micro-batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from autofit_launcher.adapter import RunStart
from autofit_launcher.adapter.build import ladder_of
from autofit_launcher.trainers.script.adapter import ScriptAdapter
from autofit_launcher.trainers.suite import cpu_budget
from tests.helpers import script
from tests.helpers.places import lay
from tests.helpers.saved import looked, whole

SCRIPT = """import os, sys, torch
from transformers import Trainer, TrainerCallback, TrainingArguments

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def forward(self, x, labels):
        return {'loss': torch.nn.functional.mse_loss(self.layer(x)[:, 0], labels)}

class Die(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if os.environ.get('DIE') and state.global_step == 5:
            os._exit(9)

torch.manual_seed(0)
data = [{'x': torch.rand(8, generator=torch.Generator().manual_seed(one)), 'labels': torch.tensor(one / 32)} for one in range(32)]
args = TrainingArguments(output_dir='out', per_device_train_batch_size=8, num_train_epochs=2, save_steps=3, learning_rate=0.05,
                         report_to=[], use_cpu=True, disable_tqdm=True)
trainer = Trainer(model=Net(), args=args, train_dataset=data, callbacks=[Die()])
trainer.train()
torch.save(trainer.model.state_dict(), sys.argv[1])
print('steps', trainer.state.global_step, 'batch', args.per_device_train_batch_size)
"""


@pytest.mark.slow
def test_a_killed_training_ends_with_the_plain_runs_weights_at_a_lower_micro_batch(tmp_path: Path) -> None:
    Path("train.py").write_text(SCRIPT)
    run = tmp_path / "run"

    def ran(argv: tuple[str, ...], **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(argv, env={**os.environ, **env}, capture_output=True, text=True, check=False)

    plain = ran((sys.executable, "train.py", "plain.pt"))
    assert "steps 8 batch 8" in plain.stdout, plain.stderr
    Path("out").rename("out of an earlier run")
    asked = {"micro_batch": 8, "accumulation": 1}
    spelled = {"micro_batch": "call:per_device_train_batch_size", "accumulation": "call:gradient_accumulation_steps"}
    mine = ScriptAdapter(script.recipe(sys.executable, "train.py", "mine.pt", ask=asked, spelled=spelled, says=asked))
    rungs = ladder_of(mine).rungs
    first = mine.command(rungs[0], cpu_budget(), folder=run)
    lay(first.files)
    assert not mine.saved(run).files
    killed = ran(first.argv, **{**first.env, **first.told}, DIE="1")
    assert killed.returncode == 9, killed.stderr
    (checkpoint,) = whole(looked(mine.saved(run)))
    assert checkpoint.path == tmp_path / "out" / "checkpoint-3"
    lower = next(rung for rung in rungs if rung.micro_batch == 2)
    again = mine.command(lower, cpu_budget(), folder=run, start=RunStart(checkpoint=checkpoint, attempt=2))
    lay(again.files)
    ended = ran(again.argv, **again.env)
    assert "steps 8 batch 2" in ended.stdout, ended.stderr
    assert json.loads((tmp_path / "out" / "checkpoint-8" / "trainer_state.json").read_text())["train_batch_size"] == 2
    for one, other in zip(torch.load("plain.pt").values(), torch.load("mine.pt").values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
