"""The example scripts for text and speech, really run on the CPU: the same training at every rung, going on, and what they refuse."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from tests.helpers.hf_data import script
from tests.helpers.hf_data import spoken as spoken
from tests.helpers.hf_data import sums as sums
from tests.helpers.places import EXAMPLES

pytestmark = pytest.mark.filterwarnings("default")  # transformers warns of its own futures

CHECKPOINTED = ("--gradient_checkpointing", True)


def words(task: str, data: Path, out: Path, *more: object) -> list[str]:
    own = ("--language", "en", "--generation_max_length", 16) if task == "speech" else ("--sequence_length", 64)
    usual = ("--learning_rate", 1e-3, "--logging_steps", 1, "--report_to", "none", "--disable_tqdm", True, "--save_strategy", "no")
    return [str(word) for word in ("--model_name_or_path", data / "model", "--data", data, "--output_dir", out, *own, *usual, *more)]


@pytest.fixture
def data(request: pytest.FixtureRequest, task: str) -> Path:
    return Path(request.getfixturevalue("spoken" if task == "speech" else "sums"))


def ran(task: str, data: Path, out: Path, *more: object) -> dict[str, Any]:
    """What the script has left in all_results.json, with the (loss, gradient norm) of each step as ``curve``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["train.py", *words(task, data, out, *more)])
        script(task).main()
    log = json.loads((out / "trainer_state.json").read_text())["log_history"]
    curve = [(row["loss"], row["grad_norm"]) for row in log if "loss" in row]
    return {**json.loads((out / "all_results.json").read_text()), "curve": curve}


def close(first: Sequence[tuple[float, float]], second: Sequence[tuple[float, float]]) -> bool:
    assert len(first) == len(second) > 0
    return all(a == pytest.approx(b, rel=2e-3) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("task", ["speech", "text"])
def test_one_times_four_trains_as_four_times_one_and_checkpointing_changes_nothing(task: str, data: Path, tmp_path: Path) -> None:
    common, parts = ("--max_steps", 4, "--per_device_train_batch_size"), ("--gradient_accumulation_steps", 4)
    whole = ran(task, data, tmp_path, *common, 4)["curve"]
    assert close(whole, found := ran(task, data, tmp_path, *common, 1, *parts)["curve"]), (whole, found)
    assert close(whole, found := ran(task, data, tmp_path, *common, 4, *CHECKPOINTED)["curve"]), (whole, found)


def test_a_run_goes_on_with_another_micro_batch_to_the_same_step_with_the_same_losses(sums: Path, tmp_path: Path) -> None:
    common = ("--max_steps", 6, "--save_strategy", "steps", "--save_steps", 3)
    asked = ("--per_device_train_batch_size", 4, "--gradient_accumulation_steps", 2)
    whole = ran("text", sums, tmp_path, *common, *asked)["curve"]
    shutil.rmtree(tmp_path / "checkpoint-6")
    lower = ("--per_device_train_batch_size", 2, "--gradient_accumulation_steps", 4)
    again = ran("text", sums, tmp_path, *common, *lower, "--resume_from_checkpoint", tmp_path / "checkpoint-3")["curve"]
    assert close(whole, again), (whole, again)


def test_speech_is_trained_saved_and_scored_to_the_end(spoken: Path, tmp_path: Path) -> None:
    assert {"eval_wer", "eval_cer", "eval_loss", "train_loss"} <= ran("speech", spoken, tmp_path, "--max_steps", 2).keys()
    assert (tmp_path / "model.safetensors").is_file()
    assert ran("speech", spoken, tmp_path / "again", "--max_steps", 1, "--model_name_or_path", tmp_path)["eval_wer"] >= 0


@pytest.mark.parametrize("task", ["speech", "text"])
def test_lora_trains_a_part_of_the_weights_of_a_model_of_which_there_is_only_the_shape(task: str, data: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    shape = Path(shutil.copytree(data / "model", tmp_path / "shape"))
    (shape / "model.safetensors").unlink()
    found = ran(task, data, tmp_path / "out", "--max_steps", 1, "--lora_rank", 2, *CHECKPOINTED, "--model_name_or_path", shape)
    assert found["curve"][0][1] > 0 and "eval_loss" in found
    adapters = tmp_path / "out" / "adapter_model.safetensors"
    assert 0 < adapters.stat().st_size < (data / "model" / "model.safetensors").stat().st_size / 5


def test_what_it_is_told_to_end_by_leaves_a_checkpoint(sums: Path, tmp_path: Path) -> None:
    argv = [sys.executable, str(EXAMPLES / "text" / "train.py"), *words("text", sums, tmp_path, "--max_steps", 5000)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        next(line for line in running.stdout if "'loss'" in line)
        running.send_signal(signal.SIGTERM)
        began = time.monotonic()
        assert running.wait(60) == 128 + signal.SIGTERM and time.monotonic() - began < 60
    assert list(tmp_path.glob("checkpoint-*/trainer_state.json"))
