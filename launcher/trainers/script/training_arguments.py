"""Finds what a script's source gives to transformers' Trainer: ``TrainingArguments(per_device_train_batch_size=32)`` and its like.

A field is spelled ``call:per_device_train_batch_size``: it is set where it arrives, by ``native/training_arguments.py``. What the source
doesn't tell has the class's default until rung 0, which is the script as it stands, shows what it is. The script is read, never run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.adapter.python_source import UNKNOWN, Constants, parsed, place
from launcher.adapter.recognised import Belief, Doubt
from launcher.trainers.script.spelling import CALL

FIELDS: Mapping[str, str] = {
    "micro_batch": "per_device_train_batch_size",
    "accumulation": "gradient_accumulation_steps",
    "val_micro_batch": "per_device_eval_batch_size",
    "checkpointing": "gradient_checkpointing",
}
DEFAULTS: Mapping[str, Any] = {"micro_batch": 8, "accumulation": 1, "val_micro_batch": 8, "checkpointing": False}
"""Of transformers' own classes, 4.50 to 5."""
_OWN = ("TrainingArguments", "Seq2SeqTrainingArguments")
_CLASS = re.compile(r"\b(\w*TrainingArguments|(SFT|DPO|ORPO|KTO|CPO|GRPO|RLOO|Reward|PRM|GKD)Config)\b")
_SHARED = ("micro_batch", "accumulation")
"""Wheels whose defaults classes that are derived from transformers' own leave as they are."""
_PARSED = re.compile(r"\b(HfArgumentParser|TrlParser)\b")
"""Where one of these makes them, the command line has a word for each field."""
_LENGTHS: Mapping[str, int] = {"max_steps": -1, "num_train_epochs": 3}
"""How long a training is: the first counts where it is positive."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """What one call in the source gives."""

    name: str
    place: str
    """File and line."""
    says: Mapping[str, Any]
    """Field -> value, where the source says it."""
    unread: frozenset[str]
    """Fields that are given and whose value isn't clear from the source."""
    pretrained: bool
    """The source speaks of a library's models, which know how to checkpoint; a person's own may not."""

    def belief(self, wheel: str) -> Belief | None:
        """None for a field that a library's class may have another default of, and doesn't say."""
        field = FIELDS[wheel]
        if field in self.says:
            source = f"{self.place}, {self.name}"
        elif field in self.unread:
            source = f"{self.place}, {self.name}: computed there, so the first trial shows it"
        elif wheel in _SHARED or (self.name in _OWN and (wheel != "checkpointing" or self.pretrained)):
            source = f"the default of {self.name}, {self.place}"
        else:
            return None
        return Belief(wheel=wheel, value=self.says.get(field, DEFAULTS[wheel]), spelling=f"{CALL}{field}", source=source)


def is_class(name: str) -> bool:
    """Whether a call of this name makes such arguments."""
    return _CLASS.fullmatch(name) is not None


def parsed_class(source: str) -> str | None:
    """The class of which a parser makes each field a word of the command line: transformers' own, or a library's that is derived from it.
    One that the source defines itself says by its base which it is; without one (``DataTrainingArguments``) it is none."""
    if not _PARSED.search(source):
        return None
    named = [found[0] for found in _CLASS.finditer(source) if f"class {found[0]}" not in source]
    return next((name for name in named if name in _OWN), next(iter(named), None))


def defaults(name: str) -> dict[str, Any]:
    """Field -> what it says where nothing else does. A class of a library's has others of evaluation and checkpointing (trl's)."""
    return {FIELDS[wheel]: value for wheel, value in DEFAULTS.items() if name in _OWN or wheel in _SHARED}


def in_source(files: Iterable[Path]) -> list[Given]:
    """The calls in the first file that has one; none where a parser gives every field a word of the command line."""
    for file in files:
        source, tree = parsed(file)
        if tree is None or _PARSED.search(source) or ("Arguments" not in source and "Config" not in source):
            continue
        if found := list(_calls(tree, file, pretrained="from_pretrained" in source or "AutoModel" in source)):
            return found
    return []


def named(files: Iterable[Path]) -> bool:
    """Whether one of them names such a class."""
    return any(_CLASS.search(parsed(file)[0]) for file in files)


def beliefs(given: list[Given]) -> dict[str, Belief]:
    """Wheel -> what the source says of it."""
    return {wheel: belief for wheel in FIELDS if (belief := given[0].belief(wheel)) is not None} if given else {}


def doubt(given: list[Given]) -> Doubt | None:
    """Several calls that say different batches: which of them trains isn't clear from the source."""
    says = [{wheel: belief.value for wheel in ("micro_batch", "accumulation") if (belief := one.belief(wheel))} for one in given]
    if all(one == says[0] for one in says):
        return None
    places = " and ".join(f"{one.name} in {one.place} ({said['micro_batch']})" for one, said in zip(given, says, strict=True))
    cure = "one command can be fitted that trains once: give each training a script of its own"
    return Doubt(wheel="micro_batch", text=f"the script trains with several batches: {places}; {cure}")


def lengths(given: list[Given]) -> dict[str, int]:
    """Spelling -> optimizer steps, or else passes over the data, where the source says a whole number of them."""
    if not given or given[0].unread & _LENGTHS.keys():
        return {}
    for field, default in _LENGTHS.items():
        value = given[0].says.get(field, default)
        if isinstance(value, (int, float)) and value > 0:
            return {f"{CALL}{field}": int(value)} if value == int(value) else {}
    return {}


def _calls(tree: ast.Module, file: Path, *, pretrained: bool) -> Iterator[Given]:
    known = Constants(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        if not is_class(name):
            continue
        given = dict(_keywords(node, known))
        says = {field: value for field, value in given.items() if value is not UNKNOWN}
        line, unread = place(file, node.lineno), frozenset(given.keys() - says.keys())
        yield Given(name=name, place=line, says=says, unread=unread, pretrained=pretrained)


def _keywords(node: ast.Call, known: Constants) -> Iterator[tuple[str, Any]]:
    """Field -> value, ``**settings`` spelled out where its dict stands in the source."""
    for keyword in node.keywords:
        if keyword.arg is not None:
            yield keyword.arg, known.value(keyword.value)
            continue
        held = known.value(keyword.value)
        yield from held.items() if isinstance(held, dict) else ((field, UNKNOWN) for field in (*FIELDS.values(), *_LENGTHS))
