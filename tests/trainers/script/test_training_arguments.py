"""Settings with which a script's source calls a known trainer: what is known of them beforehand, and what the command then becomes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.trainers.script import recognise
from launcher.trainers.script.adapter import ScriptAdapter
from tests.helpers.command_line import answer, autofit
from tests.helpers.loader_scripts import recipe_of
from tests.helpers.places import SCRIPTS


def understood(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> recognise.Understood:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(source)
    return recognise.understand(["python", "train.py"])


@pytest.mark.parametrize(("source", "micro_batch", "accumulation"), [
    ("TrainingArguments('out', per_device_train_batch_size=32, gradient_accumulation_steps=2)", "call:", "call:"),
    ("SFTConfig('o', per_device_train_batch_size=16 * n_gpus())", "call:", "call:"),
    ("HfArgumentParser(TrainingArguments)", "call:", "call:"),
    ("p.add_argument('--batch-size', type=int, default=64)\nTrainingArguments('out', per_device_train_batch_size=a.batch_size)",
     "--batch-size", "call:"),
    ("import lightning as L\np.add_argument('--batch-size', type=int, default=64)\nL.Trainer(max_epochs=2)", "--batch-size",
     "call:accumulate_grad_batches"),
    ("import lightning as L\np.add_argument('--batch-size', type=int, default=64)\nL.Fabric()", "--batch-size", "outside"),
])  # fmt: skip
def test_what_a_trainer_is_called_with_is_shown_by_rung_0_and_set_there(
    source: str, micro_batch: str, accumulation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = understood(source, tmp_path, monkeypatch)
    assert found.args["spelled"]["micro_batch"].startswith(micro_batch) and found.args["spelled"]["accumulation"].startswith(accumulation)
    assert not found.doubts and "accumulation" in ScriptAdapter(recipe_of(found)).asked.unsaid


@pytest.mark.slow
def test_a_script_with_its_settings_in_a_dict_trains_the_same_in_less_memory(tmp_path: Path) -> None:
    """Nothing of the person's is changed, and the weights at the end are the plain run's, to rounding."""
    script = tmp_path / "train.py"
    script.write_text((SCRIPTS / "hf_settings_in_code.py").read_text(encoding="utf-8"))
    plain = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([sys.executable, str(script)], cwd=tmp_path, env=plain, check=True, capture_output=True)
    (tmp_path / "weights.pt").rename(tmp_path / "plain.pt")
    before = script.read_bytes()
    done = autofit("run", "--json", "device=cpu", "device.memory=312MiB", "--", sys.executable, str(script), cwd=tmp_path, timeout=580)
    said = answer(done)
    assert said["status"] == "done" and said["effective_batch"] == said["effective_batch_asked"] == 32
    assert said["rung"]["micro_batch"] < 32 and said["steps"]["made"] == 6
    assert said["same_training"]["gradient"] == "proven" and script.read_bytes() == before
    apart = "import torch, json; a, b = torch.load('plain.pt'), torch.load('weights.pt'); " + (
        "print(json.dumps(max(((a[k] - b[k]).abs().max() / a[k].abs().max()).item() for k in a)))"
    )
    assert json.loads(subprocess.run([sys.executable, "-c", apart], cwd=tmp_path, check=True, capture_output=True).stdout) < 1e-4
