"""Reads what DeepSpeed's own configuration says of batches, beside the command's own words. Runs nothing.

DeepSpeed makes the optimizer's steps itself, by ``gradient_accumulation_steps`` of its file. Where transformers or accelerate hand it over,
only ``"auto"`` there is what the command says: transformers ends with an error where the two differ, and accelerate takes the file's number
(``Accelerator._prepare_deepspeed``), 1 where the file has none (``DeepSpeedPlugin``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.adapter.python_source import files_of, parsed
from launcher.errors import Fault
from launcher.trainers.script import configs, launchers, training_arguments
from launcher.trainers.script.spelling import OUTSIDE

STEPS = "gradient_accumulation_steps"
_KEYS: Mapping[str, str] = {"micro_batch": "train_micro_batch_size_per_gpu", "accumulation": STEPS}
_OWN = "deepspeed_config"
"""DeepSpeed's own word for its file (``deepspeed.add_config_arguments``), which then is all that says a batch."""
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


def faults(command: Sequence[str], begin: int, *, config: Sequence[str], spelled: Mapping[str, str], turned: Sequence[str]) -> list[Fault]:
    """Numbers of its configuration that would keep what a rung says from arriving. ``begin``: where the script's own words begin in
    ``command``; ``turned``: of micro_batch and accumulation those that lower rungs turn."""
    found = []
    for file in _files(command, begin, config):
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


def makes_steps(command: Sequence[str], begin: int, *, config: Sequence[str], script: Path | None) -> str:
    """Where it is said that DeepSpeed makes the optimizer's steps, so that nobody else may hold them back; nothing where it doesn't."""
    file = next(_files(command, begin, config), None)
    if file is not None:
        return file.place
    if launchers.with_deepspeed(command[: max(begin - 1, 0)]):
        return " ".join(command[: max(begin - 1, 0)])
    sources = files_of(script) if script is not None else ()
    return next((str(one) for one in sources if "deepspeed.initialize(" in parsed(one)[0]), "")


def unknown_steps(place: str) -> str:
    """Why accumulation isn't known where DeepSpeed makes the steps and no word for it was found."""
    return f'DeepSpeed makes the steps ({place}): give its file a line "{STEPS}": 1; until then the micro-batch is not turned'


def held_back(place: str) -> Fault:
    """Of a recipe that would hold its steps back."""
    cure = f'Say how many its file takes, "{STEPS}": 1, and trainer.args.spelled.accumulation=config:{STEPS}; or launch the command anew.'
    return Fault(key="trainer.args.spelled.accumulation", found=f"{OUTSIDE}, but DeepSpeed makes the steps ({place})", cure=cure)


def _files(command: Sequence[str], begin: int, config: Sequence[str]) -> Iterator[_File]:
    """Its configurations, of the command's words, of the files that it names, of its launcher's, and of the source."""
    said = [*_said(command[begin:]), *(pair for path in config for pair in _in_config(path))]
    script = next((Path(word) for word in reversed(command[:begin]) if word.endswith(".py")), None)
    given = training_arguments.in_source(files_of(script)) if script is not None and script.is_file() else []
    said += [(_HANDED, one.says[_HANDED]) for one in given if _HANDED in one.says]
    if (of := launchers.of_accelerate(command[: max(begin - 1, 0)])) is not None:
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
