"""What is known beforehand of a script or program that trains by transformers' Trainer, or Lightning's: fields that it is called with.

Their values are read nowhere: until rung 0, which is the command as it stands, shows them, they are the class's defaults.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.adapter.python_source import parsed
from launcher.adapter.recognised import Belief
from launcher.trainers.script.spelling import CALL

FIELDS: Mapping[str, str] = {
    "micro_batch": "per_device_train_batch_size",
    "accumulation": "gradient_accumulation_steps",
    "val_micro_batch": "per_device_eval_batch_size",
    "checkpointing": "gradient_checkpointing",
}
LIGHTNING = f"{CALL}accumulate_grad_batches"
WAYS: Sequence[Mapping[str, str]] = (
    {wheel: f"{CALL}{field}" for wheel, field in FIELDS.items()},
    {"micro_batch": f"{CALL}batch_size", "accumulation": f"{CALL}grad_accum_steps"},
    {"accumulation": LIGHTNING},
)
"""Wheel -> spelling, of each trainer whose call is known (``native.fields``)."""
_CLASS = re.compile(r"\b(\w*(?<!Data)TrainingArguments|(SFT|DPO|ORPO|KTO|CPO|GRPO|RLOO|Reward|PRM|GKD)Config)\b")
_IMPORTS_LIGHTNING = re.compile(r"^\s*(?:import|from)\s.*\b(?:lightning|pytorch_lightning)\b", re.MULTILINE)
_MAKES_TRAINER = re.compile(r"\bTrainer\(|instantiate\(\w+\.trainer\b")
_PROGRAMS = ("trl", "axolotl", "llamafactory-cli", "lmf")
_LENGTHS = ("max_steps", "num_train_epochs")
_SHOWN = "until the first trial shows it"


def named(files: Iterable[Path]) -> bool:
    """Whether one of them names a class of such arguments."""
    return any(_CLASS.search(parsed(file)[0]) for file in files)


def trains(words: Sequence[str]) -> bool:
    """Whether the program that a command starts is known to train by Hugging Face's Trainer."""
    return Path(words[0]).name in _PROGRAMS


def beliefs(words: Sequence[str], files: Sequence[Path]) -> Iterator[Belief]:
    """What a rung turns of such a command, where its own words don't say it."""
    if trains(words) or named(files):
        for wheel, value in (("micro_batch", 8), ("accumulation", 1)):
            yield Belief(wheel=wheel, value=value, spelling=f"{CALL}{FIELDS[wheel]}", source=f"TrainingArguments' default {_SHOWN}")
    elif any(_IMPORTS_LIGHTNING.search(source) and _MAKES_TRAINER.search(source) for source, _ in map(parsed, files)):
        yield Belief(wheel="accumulation", value=1, spelling=LIGHTNING, source=f"Trainer's default {_SHOWN}")


def lengths(arrived: Mapping[str, Any]) -> dict[str, int]:
    """Spelling -> optimizer steps, or else passes over the data, that transformers' Trainer was called with, as a whole number of them."""
    for field in _LENGTHS:  # the first counts where it is positive
        value = arrived.get(f"{CALL}{field}", 0)
        if value > 0:
            return {f"{CALL}{field}": int(value)} if value == int(value) else {}
    return {}
