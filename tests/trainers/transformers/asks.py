"""A seed -> an ask of the speech or text trainer with nasty data, really tried and run to its end -> its run's peak over its trial's.

    python -m tests.trainers.transformers.asks FOLDER RESULTS.jsonl FIRST LAST [near]

Every line of RESULTS is one launch. With ``near`` the budget is put within a tenth of what the ask needs, which a first launch measures.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

from launcher.config.schema import Recipe
from launcher.engine import train
from launcher.engine.state import Fit
from launcher.errors import BadInput
from launcher.history.run_folder import RunFolder
from launcher.ladder.build import ladder_of
from launcher.machine import devices
from launcher.trainers.transformers.adapter import TransformersAdapter
from launcher.trial.job import Job
from tests.helpers.hf_data import maker

MIB = 2**20
AMPLE = 3072 * MIB
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


# ----------------------------------------------------------------------------------------------------------------------
# Data


def make_ragged(root: Path, *, validation: int, train: int = 37) -> Path:
    """Texts of 2 to 40 words and one of 1500; the longest of the validation set comes last."""
    rng = random.Random(validation)
    root.mkdir(parents=True)

    def text(words: int) -> str:
        return " ".join(rng.choice(WORDS) for _ in range(words))

    lengths = {"train": [rng.randint(2, 40) for _ in range(train - 1)] + [1500], "validation": [*range(2, validation + 1), 400]}
    for name, each in lengths.items():
        rows = [json.dumps({"text": text(words)}) for words in each]
        (root / f"{name}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    _text_model(root / "model", [text(30) for _ in range(50)])
    return root


def _text_model(folder: Path, texts: list[str]) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    words = maker("text").tokenizer(texts)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1000, hidden_size=192, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=1024, bos_token_id=None, eos_token_id=words.eos_token_id, pad_token_id=words.pad_token_id,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    words.save_pretrained(folder)


def make_uneven(root: Path, *, validation: int, train: int = 21) -> Path:
    """Clips with transcripts of 1 to 20 words; the largest recording (stereo, 48 kHz) has the shortest one."""
    import numpy as np
    import soundfile

    rng = random.Random(validation)
    noise = np.random.default_rng(0)
    for name, count in {"train": train, "validation": validation}.items():
        folder = root / name
        folder.mkdir(parents=True)
        rows = ["file_name,text"]
        for number in range(count):
            largest = number == count - 1
            shape = (4 * 48_000, 2) if largest else (rng.randint(2_000, 64_000),)
            soundfile.write(folder / f"{number}.flac", noise.normal(0, 0.01, shape).astype("float32"), 48_000 if largest else 16_000)
            words = 1 if largest else 20 if number == count // 2 else rng.randint(1, 12)
            rows.append(f"{number}.flac,{' '.join(rng.choice(WORDS) for _ in range(words))}")
        (folder / "metadata.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    shape = {**maker("speech").TINY, "d_model": 192, "encoder_ffn_dim": 768, "decoder_ffn_dim": 768}
    maker("speech").make_model(root / "model", ["one two three four five six seven eight nine zero"] * 4, shape)
    return root


# ----------------------------------------------------------------------------------------------------------------------
# Asks


def ask(seed: int, data: Path) -> Recipe:
    """Everything that the trainers take and that may turn memory, at random; the data is made where it isn't there yet."""
    rng = random.Random(seed)
    task = ("text", "speech")[seed % 2]
    size = rng.choice((2, 9, 60)) if task == "text" else rng.choice((2, 9, 30))
    place = data / f"{task}{size}"
    if not place.exists():
        (make_ragged if task == "text" else make_uneven)(place, validation=size)
    asked = {
        "model": f"{place}/model",
        "micro_batch": rng.choice((1, 2, 4, 8)),
        "accumulation": rng.choice((1, 1, 2, 3, 8)),
        "val_micro_batch": rng.choice((1, 4, 16)),
        "val_keeps": rng.choice(("logits", "tokens", "sums")),
        "optimizer": rng.choice(("adamw_torch_fused", "adamw_torch", "sgd", "adafactor", "rmsprop")),
        "precision": rng.choice(("fp32", "fp32", "bf16")),
        "checkpointing": rng.random() < 0.25,
        "lora": rng.choice((0, 0, 0, 4)),
        **(_text_ask(rng) if task == "text" else {}),
    }
    args = {**_args(rng), **(_text_args(rng) if task == "text" else _speech_args(rng))}
    if task == "speech" and args["predict_with_generate"]:
        asked["generation_length"] = rng.choice((16, 40))
    return Recipe.model_validate(
        {
            "name": f"ask{seed}",
            "data": str(place),
            "ask": asked,
            "trainer": {"adapter": "transformers", "task": task, "args": args},
            "ladder": {"order": ("micro_batch",), "wheels": {"micro_batch": {"values": ()}}},
            "device": {"kind": "cpu", "memory": AMPLE},
        }
    )


def _args(rng: random.Random) -> dict[str, Any]:
    eval_strategy = rng.choice(("no", "epoch", "steps"))
    best = eval_strategy != "no" and rng.random() < 0.5
    args: dict[str, Any] = {
        "num_train_epochs": rng.choice((1, 2)),
        "eval_strategy": eval_strategy,
        "save_strategy": eval_strategy if best else rng.choice(("no", "epoch", "steps")),
        "load_best_model_at_end": best,
        "logging_steps": rng.choice((1, 500)),
    }
    if eval_strategy == "steps":
        args["eval_steps"] = 3
    if args["save_strategy"] == "steps":
        args["save_steps"] = 3
    if workers := rng.choice((0, 0, 1, 2)):
        args |= {"dataloader_num_workers": workers, "dataloader_persistent_workers": rng.random() < 0.5}
        args |= {"dataloader_prefetch_factor": rng.choice((1, 4))}
    for chance, more in (
        (0.3, {"save_total_limit": 1}),
        (0.2, {"save_only_model": True}),
        (0.3, {"label_smoothing_factor": 0.1}),
        (0.2, {"max_grad_norm": 0.0}),
        (0.2, {"eval_accumulation_steps": 2}),
        (0.2, {"dataloader_drop_last": True}),
        (0.2, {"eval_on_start": True}),
        (0.2, {"skip_memory_metrics": False}),
        (0.1, {"prediction_loss_only": True}),
        (0.2, {"include_num_input_tokens_seen": True}),
        (0.2, {"include_for_metrics": ["inputs", "loss"]}),
        (0.3, {"disable_tqdm": True}),
    ):
        args |= more if rng.random() < chance else {}
    if args.get("prediction_loss_only"):
        args.pop("metric_for_best_model", None)
    return args


def _text_ask(rng: random.Random) -> dict[str, Any]:
    return {"sequence_length": rng.choice((64, 300, 768))}


def _text_args(rng: random.Random) -> dict[str, Any]:
    args: dict[str, Any] = {"packing": rng.random() < 0.3}
    if rng.random() < 0.3:
        args["train_sampling_strategy"] = "group_by_length"
    if rng.random() < 0.2:
        args["neftune_noise_alpha"] = 5.0
    if rng.random() < 0.2:
        args["bf16_full_eval"] = True  # refused for speech
    return args


def _speech_args(rng: random.Random) -> dict[str, Any]:
    return {
        "language": "en",
        "resample": True,
        "predict_with_generate": rng.random() < 0.5,
        "freeze_encoder": rng.random() < 0.3,
        **({"generation_num_beams": 3} if rng.random() < 0.2 else {}),
    }


# ----------------------------------------------------------------------------------------------------------------------
# Launches


def launch(asked: Recipe, folder: Path) -> Fit:
    """Trial and full run, as ``autofit train``."""
    adapter = TransformersAdapter(asked)
    if faults := adapter.check():
        raise BadInput(faults)
    budget = devices.find("cpu", memory_bytes=asked.device.memory, headroom=asked.device.headroom)
    job = Job(adapter=adapter, ladder=ladder_of(adapter), budget=budget, folder=RunFolder.create(folder, asked.name))
    with open("/dev/null", "wb") as nothing:
        show: tuple[BinaryIO, BinaryIO] = (nothing, nothing)
        return train.train(job, show=show)


def told(seed: int, asked: Recipe, fit: Fit) -> dict[str, Any]:
    """One launch, as a line of the results."""
    last, memory = fit.chosen or fit.trials[-1], fit.memory
    changed = {key: value for key, value in {**asked.ask, **asked.trainer.args}.items() if key != "model"}
    return {
        "seed": seed,
        "task": asked.trainer.task,
        "data": Path(str(asked.data)).name,
        "status": str(fit.status),
        "verdict": last.verdict.why,
        "ratio": round(memory.ratio, 4) if memory is not None and memory.ratio else None,
        "trial_mib": round(last.verdict.peak_bytes / MIB, 1),
        "run_mib": round(memory.run_peak_bytes / MIB, 1) if memory is not None else None,
        "budget_mib": round(fit.job.budget.budget_bytes / MIB, 1),
        "phases_mib": {use.phase: round(use.reserved_bytes / MIB, 1) for use in last.report.uses},
        "trial_s": round(last.seconds, 1),
        "run_s": round(fit.outcome.seconds, 1) if fit.outcome is not None else None,
        "lost": list(fit.outcome.lost_to_memory) if fit.outcome is not None else [],
        "ask": changed,
        "run_dir": str(fit.job.folder.path),
    }


def near(asked: Recipe, need_bytes: int, rng: random.Random) -> Recipe:
    """The same with a budget of what it needs to a tenth more, and the headroom that is the default."""
    device = asked.device.model_copy(update={"memory": int(need_bytes / 0.9 * rng.uniform(1.0, 1.1))})
    return asked.model_copy(update={"device": device})


def main(folder: Path, results: Path, first: int, last: int, *, nearly: bool) -> None:
    for seed in range(first, last):
        began = time.monotonic()
        asked = ask(seed, folder / "data")
        try:
            fit = launch(asked, folder / "runs")
            line = told(seed, asked, fit)
            if nearly and fit.memory is not None:
                again = near(asked, fit.memory.trial_peak_bytes, random.Random(seed))
                line = {**told(seed, again, launch(again, folder / "runs")), "near": True}
        except BadInput as refused:
            line = {"seed": seed, "refused": str(refused)}
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{seed}: {line.get('status')} {line.get('ratio')} in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), nearly="near" in sys.argv[5:])
