"""The built-in transformers trainers, really run on the CPU: the same training at every rung, resume, and what they refuse."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.places import ROOT

pytest.importorskip("transformers")

from launcher.forecast import gpu_catalogue
from launcher.pretended import cards
from launcher.trainers.transformers.arguments import checkpointing, known
from launcher.trainers.transformers.native import hf_run, hf_speech, hf_text
from tests.helpers.hf_data import spoken as spoken
from tests.helpers.hf_data import sums as sums
from tests.helpers.pretended import needs_a_pretended_card

pytestmark = pytest.mark.filterwarnings("default")  # transformers warns of its own futures

SCRIPTS: dict[str, Any] = {"speech": hf_speech, "text": hf_text}


def words(task: str, data: Path, out: Path, *more: object) -> list[str]:
    own = ("--language", "en") if task == "speech" else ("--sequence_length", 64)
    usual = (
        "--learning_rate",
        1e-3,
        "--logging_steps",
        1,
        "--use_cpu",
        True,
        "--report_to",
        "none",
        "--disable_tqdm",
        True,
        "--save_strategy",
        "no",
    )
    return [str(word) for word in ("--model_name_or_path", data / "model", "--data", data, "--output_dir", out, *own, *usual, *more)]


def checkpointed(task: str) -> list[object]:
    """As the installed transformers spells it; before 5 it turns the cache off by itself."""
    name = f"--{checkpointing(task)}"
    cache = ("--use_cache", False) if "use_cache" in known(task) else ()
    return [name, True, f"{name}_kwargs", json.dumps({"use_reentrant": False}), *cache]


def trainer(task: str, data: Path, out: Path, *more: object) -> Any:
    own, args = SCRIPTS[task].arguments(words(task, data, out, *more))
    return SCRIPTS[task].build(own, args)


def curve(task: str, data: Path, out: Path, *more: object) -> list[tuple[float, float]]:
    """(loss, gradient norm) of each step."""
    running = trainer(task, data, out, *more)
    running.train()
    return losses_of(running)


def losses_of(running: Any) -> list[tuple[float, float]]:
    return [(row["loss"], row["grad_norm"]) for row in running.state.log_history if "loss" in row]


def close(first: Sequence[tuple[float, float]], second: Sequence[tuple[float, float]]) -> bool:
    assert len(first) == len(second) > 0
    return all(a == pytest.approx(b, rel=2e-3) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("task", ["speech", "text"])
def test_one_times_four_trains_as_four_times_one_and_checkpointing_changes_nothing(
    task: str, spoken: Path, sums: Path, tmp_path: Path
) -> None:
    data = {"speech": spoken, "text": sums}[task]
    whole = curve(task, data, tmp_path, "--max_steps", 4, "--per_device_train_batch_size", 4)
    parts = curve(task, data, tmp_path, "--max_steps", 4, "--per_device_train_batch_size", 1, "--gradient_accumulation_steps", 4)
    saving = curve(task, data, tmp_path, "--max_steps", 4, "--per_device_train_batch_size", 4, *checkpointed(task))
    shared = (*checkpointed(task), "--checkpointing_share", 0.5)
    half = trainer(task, data, tmp_path, "--max_steps", 4, "--per_device_train_batch_size", 4, *shared)
    half.train()
    assert hf_run.has_first(half.model, 0.5) and not hf_run.has_first(half.model, 1.0)
    assert close(whole, parts), (whole, parts)
    assert close(whole, saving), (whole, saving)
    assert close(whole, losses_of(half)), (whole, losses_of(half))


def test_without_our_loss_transformers_multiplies_whispers_gradients_by_the_accumulation(spoken: Path, tmp_path: Path) -> None:
    """When this fails, transformers has mended it: ``hf_run.token_weighted`` may then be left out for new versions."""
    running = [
        trainer(
            "speech",
            spoken,
            tmp_path,
            "--max_steps",
            1,
            "--per_device_train_batch_size",
            micro,
            "--gradient_accumulation_steps",
            4 // micro,
        )
        for micro in (4, 1)
    ]
    norms = []
    for one in running:
        one.compute_loss_func = None
        one.train()
        norms.append(next(row["grad_norm"] for row in one.state.log_history if "grad_norm" in row))
    assert norms[1] > 3 * norms[0]


def test_a_run_resumed_with_another_micro_batch_ends_at_the_same_step_with_the_same_losses(sums: Path, tmp_path: Path) -> None:
    common = ("--max_steps", 6, "--save_strategy", "steps", "--save_steps", 3)
    whole = curve("text", sums, tmp_path / "whole", *common, "--per_device_train_batch_size", 4, "--gradient_accumulation_steps", 2)
    argv = words("text", sums, tmp_path / "parts", *common, "--per_device_train_batch_size", 4, "--gradient_accumulation_steps", 2)
    hf_text.main(argv)
    for name in ("checkpoint-6", "all_results.json", "trainer_state.json"):
        found = tmp_path / "parts" / name
        shutil.rmtree(found) if found.is_dir() else found.unlink()
    again = words("text", sums, tmp_path / "parts", *common, "--per_device_train_batch_size", 2, "--gradient_accumulation_steps", 4)
    hf_text.main([*again, "--resume_from_checkpoint", "last"])
    state = json.loads((tmp_path / "parts" / "trainer_state.json").read_text())
    assert (state["global_step"], state["max_steps"]) == (6, 6)
    resumed = [(row["loss"], row["grad_norm"]) for row in state["log_history"] if "loss" in row]
    assert close(whole, resumed), (whole, resumed)


def test_a_run_is_not_resumed_with_another_effective_batch(sums: Path, tmp_path: Path) -> None:
    common = ("--max_steps", 2, "--save_strategy", "steps", "--save_steps", 1)
    hf_text.main(words("text", sums, tmp_path, *common, "--per_device_train_batch_size", 4, "--gradient_accumulation_steps", 2))
    argv = words(
        "text",
        sums,
        tmp_path,
        *common,
        "--per_device_train_batch_size",
        2,
        "--gradient_accumulation_steps",
        2,
        "--resume_from_checkpoint",
        "last",
    )
    with pytest.raises(hf_run.Refused, match=r"8 samples per step, and this run takes 4 .*--gradient_accumulation_steps 4"):
        hf_text.main(argv)


def test_the_three_ways_of_keeping_predictions_give_the_same_figures(sums: Path, tmp_path: Path) -> None:
    found = [trainer("text", sums, tmp_path, "--eval_keeps", keeps, "--per_device_eval_batch_size", 4).evaluate() for keeps in hf_run.KEEPS]
    assert len({(round(one["eval_loss"], 4), round(one["eval_token_accuracy"], 6)) for one in found}) == 1


def test_speech_is_trained_saved_and_scored_to_the_end(spoken: Path, tmp_path: Path) -> None:
    hf_speech.main(words("speech", spoken, tmp_path, "--max_steps", 2, "--predict_with_generate", True, "--generation_max_length", 16))
    results = json.loads((tmp_path / "all_results.json").read_text())
    assert {"eval_wer", "eval_cer", "eval_loss", "train_loss"} <= results.keys()
    assert (tmp_path / "model.safetensors").is_file()
    assert any((tmp_path / name).is_file() for name in ("tokenizer.json", "vocab.json")), "the second: transformers before 5"
    own, _ = hf_speech.arguments(["--model_name_or_path", str(tmp_path), "--data", str(spoken), "--output_dir", str(tmp_path)])
    model, processor = hf_speech.load(own)
    assert model.config.model_type == "whisper" and processor.tokenizer.pad_token_id is not None


def test_a_shorter_window_trains_and_refuses_longer_clips(spoken: Path, tmp_path: Path) -> None:
    argv = words(
        "speech", spoken, tmp_path, "--max_steps", 1, "--audio_seconds", 2, "--on_bad_data", "skip", "--predict_with_generate", True
    )
    running = trainer("speech", spoken, tmp_path, "--max_steps", 1, "--audio_seconds", 2, "--on_bad_data", "skip")
    assert running.train_dataset[0]["input_features"].shape[-1] == 200
    running.train()
    own, args = hf_speech.arguments([word if word != "skip" else "stop" for word in argv])
    with pytest.raises(hf_run.Refused, match="longer than the model's window of 2 s"):
        hf_speech.build(own, args)


@pytest.mark.parametrize("task", ["speech", "text"])
def test_lora_trains_a_part_of_the_weights(task: str, spoken: Path, sums: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    data = {"speech": spoken, "text": sums}[task]
    running = trainer(task, data, tmp_path, "--max_steps", 1, "--lora_rank", 2, *checkpointed(task))
    parameters = list(running.model.parameters())
    assert 0 < sum(one.numel() for one in parameters if one.requires_grad) < sum(one.numel() for one in parameters) / 10
    running.train()
    assert running.state.log_history[0]["grad_norm"] > 0
    assert "eval_loss" in running.evaluate()


def test_prompts_are_not_learned_and_every_text_ends(sums: Path) -> None:
    own, _ = hf_text.arguments(words("text", sums, Path("unused")))
    _, tokenizer = hf_text.load(own)
    (tokens, labels), *_ = hf_text.tokenized([hf_text.Text(where="here", prompt="Question:", text=" 1 plus 1 is 2.")], tokenizer)
    learned = [label for label in labels if label != hf_run.IGNORED]
    assert tokenizer.decode(learned) == " 1 plus 1 is 2.<|end|>"
    assert tokenizer.decode(tokens) == "Question: 1 plus 1 is 2.<|end|>"


def test_packed_rows_hold_every_token_in_order() -> None:
    rows = [([1, 2, 3], [-100, 2, 3]), ([4, 5], [4, 5]), ([6], [6])]
    assert hf_text.packed(rows, 2) == [([1, 2], [-100, 2]), ([3, 4], [3, 4]), ([5, 6], [5, 6])]
    assert hf_text.packed(rows, 99) == [([1, 2, 3, 4, 5, 6], [-100, 2, 3, 4, 5, 6])]


def test_a_folder_named_datasets_is_not_taken_for_the_package(tmp_path: Path) -> None:
    """An editable checkout, or a script's own folder, puts it on the path; transformers then failed in its data loader."""
    (tmp_path / "datasets" / "mine").mkdir(parents=True)
    code = (
        "import sys; from launcher.trainers.transformers.native import hf_run; from transformers.utils import is_datasets_available;"
        "sys.exit(is_datasets_available())"
    )
    root = ROOT
    really_there = importlib.util.find_spec("datasets") is not None
    for path in (f"{tmp_path}:{root}", f"{root}"):
        env = {**os.environ, "PYTHONPATH": path}
        assert subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode == int(really_there)


def test_a_loss_that_is_not_finite_is_logged_as_such_and_not_as_the_mean_of_those_before(sums: Path, tmp_path: Path) -> None:
    import transformers

    made = trainer("text", sums, tmp_path / "out", "--max_steps", 3)

    class Breaks(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            next(iter(kwargs["model"].parameters())).data.fill_(math.nan)

    made.add_callback(Breaks())
    made.train()
    losses = [row["loss"] for row in made.state.log_history if "loss" in row]
    assert math.isfinite(losses[0]) and [math.isnan(loss) for loss in losses[1:]] == [True, True]
    asked = SCRIPTS["text"].arguments(words("text", sums, tmp_path / "out", "--logging_nan_inf_filter", True))[1]
    assert asked.logging_nan_inf_filter


@pytest.mark.parametrize("task", ["speech", "text"])
@pytest.mark.parametrize(("value", "said"), [("optimizer", "is for one card; this trains on 1 x cpu"), ("all", "none, optimizer")])
def test_states_are_offloaded_from_a_card_alone(task: str, value: str, said: str, spoken: Path, sums: Path, tmp_path: Path) -> None:
    with pytest.raises(hf_run.Refused, match=said):
        trainer(task, {"speech": spoken, "text": sums}[task], tmp_path / "out", "--offload", value)


ON_A_CARD = """
import importlib
import sys
from launcher.trainers.transformers.native import hf_run
task, *argv = sys.argv[1:]
script = importlib.import_module(f"launcher.trainers.transformers.native.hf_{task}")
trainer = script.build(*script.arguments(argv))
hf_run.finish(trainer, trainer.args)
from launcher.trainers.transformers.inside import levers
print(trainer.model.device, levers.offload_seen(trainer.optimizer), len(trainer.optimizer.optimizer.state))
"""


@pytest.mark.slow
@needs_a_pretended_card
@pytest.mark.parametrize("task", ["speech", "text"])
def test_both_trainers_step_with_states_in_the_host_s_memory(task: str, spoken: Path, sums: Path, tmp_path: Path) -> None:
    data = {"speech": spoken, "text": sums}[task]
    argv = words(task, data, tmp_path / "out", "--max_steps", 2, "--offload", "optimizer", "--optim", "adamw_torch")
    del argv[(at := argv.index("--use_cpu")) : at + 2]
    (model,) = gpu_catalogue.named(["t4"])
    with cards.played(cards.Cards(model=model)) as environment:
        script = [sys.executable, "-c", ON_A_CARD, task, *argv]
        done = subprocess.run(
            script,
            env={**environment, "PYTHONPATH": f"{environment['PYTHONPATH']}:{ROOT}"},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    device, seen, many = done.stdout.splitlines()[-1].split()
    assert (device, seen) == ("cuda:0", "optimizer") and int(many) > 5
