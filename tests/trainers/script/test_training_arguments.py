"""Settings that stand in a script's source, as most people write them: what is understood of them, and what the command then becomes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.trainers.script import recognise
from tests.helpers.command_line import answer, autofit
from tests.helpers.places import SCRIPTS

CALLS = {
    "literals": "TrainingArguments('out', per_device_train_batch_size=32, gradient_accumulation_steps=2)",
    "a dict of the file": "CONFIG = {'batch': 32}\nSeq2SeqTrainingArguments('o', per_device_train_batch_size=CONFIG['batch'], "
    "gradient_accumulation_steps=2)",
    "keywords in a dict": "kw = dict(per_device_train_batch_size=32, gradient_accumulation_steps=2)\nTrainingArguments('out', **kw)",
    "a class": "class C:\n    bs = 16\ntransformers.TrainingArguments('o', per_device_train_batch_size=C.bs * 2, "
    "gradient_accumulation_steps=2)",
    "a library's own": "SFTConfig('o', per_device_train_batch_size=32, gradient_accumulation_steps=2)",
}


def understood(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> recognise.Understood:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(source)
    return recognise.understand(["python", "train.py"])


@pytest.mark.parametrize("name", CALLS)
def test_what_the_source_gives_is_what_is_asked(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = understood(CALLS[name], tmp_path, monkeypatch)
    assert (found.ask["micro_batch"], found.ask["accumulation"]) == (32, 2) and not found.doubts
    assert found.args["spelled"]["micro_batch"] == "call:per_device_train_batch_size"
    assert found.beliefs[0].source.startswith("train.py line ")


def test_what_only_running_it_would_tell_is_left_to_the_first_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = understood("TrainingArguments('out', per_device_train_batch_size=16 * n_gpus())", tmp_path, monkeypatch)
    assert found.ask["micro_batch"] == 8 and not found.doubts
    assert "the first trial shows it" in next(one.source for one in found.beliefs if one.wheel == "micro_batch")


def test_a_word_of_the_command_comes_before_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "p = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int, default=64)\na = p.parse_args()\n"
        "TrainingArguments('out', per_device_train_batch_size=a.batch_size, gradient_accumulation_steps=4)"
    )
    spelled = understood(source, tmp_path, monkeypatch).args["spelled"]
    assert (spelled["micro_batch"], spelled["accumulation"]) == ("--batch-size", "call:gradient_accumulation_steps")


def test_a_parser_of_all_fields_leaves_nothing_to_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "HfArgumentParser(TrainingArguments)\nTrainingArguments('out', per_device_train_batch_size=4)"
    spelled = understood(source, tmp_path, monkeypatch).args["spelled"]
    assert spelled["micro_batch"] == "--per_device_train_batch_size"


def test_two_trainings_with_different_batches_are_in_doubt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "TrainingArguments('a', per_device_train_batch_size=32)\nTrainingArguments('b', per_device_train_batch_size=4)"
    (doubt,) = understood(source, tmp_path, monkeypatch).doubts
    assert "train.py line 1 (32)" in doubt.text and "train.py line 2 (4)" in doubt.text and "a script of its own" in doubt.text


def test_a_model_of_the_persons_own_is_not_asked_to_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = "TrainingArguments('out', per_device_train_batch_size=4)"
    assert "checkpointing" not in understood(call, tmp_path, monkeypatch).ask
    assert understood(f"AutoModel.from_pretrained('x')\n{call}", tmp_path, monkeypatch).ask["checkpointing"] is False


@pytest.mark.parametrize(("more", "lengths"), [("", {"call:num_train_epochs": 3}), (", max_steps=50", {"call:max_steps": 50}),
                                               (", num_train_epochs=0.5", None), (", max_steps=n", None)])  # fmt: skip
def test_how_long_it_trains_is_read_too(more: str, lengths: dict[str, int] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = understood(f"TrainingArguments('out', per_device_train_batch_size=4{more})", tmp_path, monkeypatch)
    assert found.args.get("lengths") == lengths


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
