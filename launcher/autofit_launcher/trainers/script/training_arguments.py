"""Fields with which known trainers are called, and by which names a script or program tells that it trains by transformers' Trainer.

The fields' values are read nowhere: rung 0, which is the command as it stands, shows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from autofit_launcher.adapter import wheel_names
from autofit_launcher.adapter.python_source import parsed
from autofit_launcher.ladder.same_training import Length
from autofit_launcher.trainers.script.spelling import CALL, name

FIELDS: Mapping[str, str] = {
    "micro_batch": "per_device_train_batch_size",
    "accumulation": "gradient_accumulation_steps",
    "val_micro_batch": "per_device_eval_batch_size",
    "checkpointing": "gradient_checkpointing",
}
LIGHTNING = f"{CALL}accumulate_grad_batches"
WAYS: Sequence[Mapping[str, str]] = (
    {wheel: f"{CALL}{field}" for wheel, field in FIELDS.items()},
    {"accumulation": LIGHTNING},
)
"""Wheel -> spelling, of each trainer whose call is known (``native.fields``)."""
_CLASS = re.compile(r"\b(\w*(?<!Data)TrainingArguments|(SFT|DPO|ORPO|KTO|CPO|GRPO|RLOO|Reward|PRM|GKD)Config)\b")
_PROGRAMS = ("trl", "axolotl", "llamafactory-cli", "lmf")
_LENGTHS = ("max_steps", "num_train_epochs")


def named(files: Iterable[Path]) -> bool:
    """Tells whether a file names a class of such arguments."""
    return any(_CLASS.search(parsed(file)[0]) for file in files)


def trains(words: Sequence[str]) -> bool:
    """Tells whether the program that a command starts is known to train by Hugging Face's Trainer."""
    return Path(words[0]).name in _PROGRAMS


def lengths(arrived: Mapping[str, Any]) -> dict[str, int]:
    """Spelling -> optimizer steps, or else passes over the data, that transformers' Trainer was called with, as a whole number of them."""
    for field in _LENGTHS:  # the first counts where it is positive
        value = arrived.get(f"{CALL}{field}", 0)
        if value > 0:
            return {f"{CALL}{field}": int(value)} if value == int(value) else {}
    return {}


def length_of(lengths: Mapping[str, int], *, one_kind: bool) -> Length | None:
    """Returns the length if one word alone says it. ``one_kind``: as the command stands a step is an optimizer step."""
    if len(lengths) != 1:
        return None
    ((spelled, asked),) = lengths.items()
    if wheel_names.counts_passes(name(spelled)):
        return Length(word=spelled, passes=asked)
    of_a_pass = "epoch" in name(spelled).lower()  # --steps-per-epoch
    return Length(word=spelled, updates=asked) if one_kind and not of_a_pass else None
