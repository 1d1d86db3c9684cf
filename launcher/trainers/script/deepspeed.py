"""Reads what DeepSpeed's own configuration says of batches, beside the command's own words. Runs nothing.

DeepSpeed makes the optimizer's steps itself, by ``gradient_accumulation_steps`` of its file. Where transformers or accelerate hand it over,
only ``"auto"`` there is what the command says: transformers ends with an error where the two differ, and accelerate takes the file's number
(``Accelerator._prepare_deepspeed``), 1 where the file has none (``DeepSpeedPlugin``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from launcher.adapter.python_source import parsed
from launcher.errors import Fault
from launcher.trainers.script import configs, launchers
from launcher.trainers.script.spelling import OUTSIDE

STEPS = "gradient_accumulation_steps"
_KEYS: Mapping[str, str] = {"micro_batch": "train_micro_batch_size_per_gpu", "accumulation": STEPS}
_OWN = "deepspeed_config"
"""DeepSpeed's own word for its file (``deepspeed.add_config_arguments``), which then is all that says a batch."""
_IN_SOURCE = re.compile(r"""\bdeepspeed\s*=\s*["']([^"']+\.json)["']""")
_HANDED = "deepspeed"
"""That of transformers' TrainingArguments, and of what is built on them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _File:
    """One configuration of DeepSpeed's, or what accelerate says in its place."""

    place: str
    holds: Mapping[str, Any]
    """What it says, by its keys."""
    is_own: bool = False
    key: str = ""
    """Section in which the keys stand."""
    default: int | None = 1
    """Accumulation where it says none; None: as the command says, or as its other two keys make it."""


class Places(NamedTuple):
    """Where DeepSpeed is looked for."""

    command: Sequence[str]
    begin: int
    """Where the script's own words begin in it."""
    config: Sequence[str]
    """The configuration files that it names."""
    sources: Sequence[Path]


def faults(places: Places, *, spelled: Mapping[str, str], turned: Sequence[str]) -> list[Fault]:
    """Numbers of its configuration that would keep what a rung says from arriving. ``turned``: of micro_batch and accumulation those that
    lower rungs turn."""
    found = []
    for file in _files(places):
        for wheel, name in _KEYS.items():
            value = file.holds.get(name, file.default if wheel == "accumulation" else None)
            here = spelled.get(wheel) == f"config:{name}" and file.is_own
            if wheel not in turned or here or value in (None, "auto"):
                continue
            found.append(Fault(key="trainer.args.command", found=_found(file, name, value), cure=_cure(file, wheel, name)))
    return found


def _found(file: _File, name: str, value: Any) -> str:
    says = f"says {file.key}{name}: {value}" if name in file.holds else f"has no {name}, which is {value} then"
    return f"{file.place} {says}; a lower rung has another, and DeepSpeed would not train with that"


def _cure(file: _File, wheel: str, name: str) -> str:
    alone = "; or ladder.wheels.micro_batch.floor set to the asked one, which tries that alone."
    if file.key:
        return f"Take it out there, so that the command's own counts{alone}"
    if file.is_own:
        return f"Let it alone say it: trainer.args.config={file.place} trainer.args.spelled.{wheel}=config:{name}{alone}"
    return f'Make it "auto" there, so that the command\'s own counts{alone}'


def makes_steps(places: Places) -> str:
    """Where it is said that DeepSpeed makes the optimizer's steps, so that nobody else may hold them back; nothing where it doesn't."""
    file = next(_files(places), None)
    if file is not None:
        return file.place
    starter = places.command[: max(places.begin - 1, 0)]
    if launchers.with_deepspeed(starter):
        return " ".join(starter)
    return next((str(one) for one in places.sources if "deepspeed.initialize(" in parsed(one)[0]), "")


def unknown_steps(place: str) -> str:
    """Why accumulation isn't known where DeepSpeed makes the steps and no word for it was found."""
    return f'DeepSpeed makes the steps ({place}): give its file a line "{STEPS}": 1; until then the micro-batch is not turned'


def held_back(place: str) -> Fault:
    """Of a recipe that would hold its steps back."""
    cure = f'Say how many its file takes, "{STEPS}": 1, and trainer.args.spelled.accumulation=config:{STEPS}; or launch the command anew.'
    return Fault(key="trainer.args.spelled.accumulation", found=f"{OUTSIDE}, but DeepSpeed makes the steps ({place})", cure=cure)


def _files(places: Places) -> Iterator[_File]:
    """Its configurations, of the command's words, of the files that it names, of its launcher's, and of the source."""
    said = [*_said(places.command[places.begin :]), *(pair for path in places.config for pair in _in_config(path))]
    said += [(_HANDED, found) for one in places.sources for found in _IN_SOURCE.findall(parsed(one)[0])]
    if (of := launchers.of_accelerate(places.command[: max(places.begin - 1, 0)])) is not None:
        path, section = of
        if "deepspeed_config_file" in section:
            said.append((_HANDED, section["deepspeed_config_file"]))
        else:
            yield _File(place=path, holds=section, key="deepspeed_config.", default=None)
    for name, value in said:
        if isinstance(value, Mapping) or Path(str(value)).is_file():
            place, own = str(value) if not isinstance(value, Mapping) else f"{name}=...", name == _OWN
            yield _File(place=place, holds=_held(value), is_own=own, default=None if own else 1)


def _said(words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if (bare := name.lstrip("-").replace("-", "_")) in (_OWN, _HANDED):
            yield bare, value if equals else next(iter(words[at + 1 : at + 2]), "")


def _in_config(path: str) -> Iterator[tuple[str, Any]]:
    held = _held(path)
    for key in (_OWN, _HANDED):
        if isinstance(held.get(key), (str, Mapping)):
            yield key, held[key]


def _held(value: Any) -> Mapping[str, Any]:
    """A file's content, or what stands in its place; nothing where it can't be read, which its trainer says itself."""
    if isinstance(value, Mapping):
        return value
    try:
        found = configs.held(str(value))
    except (ValueError, OSError):
        return {}
    return found if isinstance(found, Mapping) else {}
