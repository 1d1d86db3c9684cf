"""What each place of a command says of its settings: its words, its configuration files, its script's defaults; and which place counts."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher.adapter import wheel_names
from launcher.adapter.recognised import Belief, Doubt, typed
from launcher.trainers.script import batches, configs, overrides
from launcher.trainers.script.declared import Flag
from launcher.trainers.script.spelling import NOT, YACS

COMMAND_LINE = "command line"
"""Where a belief was found that the command itself says."""


def believed(candidates: Sequence[Belief]) -> tuple[dict[str, Belief], list[Doubt]]:
    """For each wheel the candidate from the most telling place; a doubt where that place says two things."""
    beliefs: dict[str, Belief] = {}
    doubts = []
    for wheel in wheel_names.NAMES:
        found = [belief for belief in candidates if belief.wheel == wheel]
        if not found:
            continue
        place = [belief for belief in found if _rank(belief) == _rank(found[0])]
        best = [belief for belief in place if _is_usual(belief)] or place
        if len({belief.spelling for belief in best}) > 1:
            said = " or ".join(f"{belief.spelling} ({belief.value})" for belief in best)
            cure = f"say trainer.args.spelled.{wheel}=SPELLING ask.{wheel}=VALUE before --"
            doubts.append(Doubt(wheel=wheel, text=f"{wheel} could be {said}: {cure}"))
            continue
        beliefs[wheel] = best[-1 if best[0].source == COMMAND_LINE else 0]  # a word that is said twice means what it says last
    return beliefs, doubts


def _is_usual(belief: Belief) -> bool:
    """Whether its name is one that is always used for the wheel, not only one made of the same words."""
    return wheel_names.usual(batches.name(belief.spelling)) == belief.wheel


def _rank(belief: Belief) -> int:
    return {COMMAND_LINE: 0}.get(belief.source, 2 if belief.source.endswith("'s default") else 1)


def meaning(spelling: str) -> str | None:
    """The wheel that a flag or key means by its last name, or the whole batch."""
    last = batches.name(spelling)
    if wheel_names.unit(last):
        return batches.UNIT
    if wheel_names.by_tokens(last):
        return batches.BOUND
    return batches.WHOLE if wheel_names.whole(last) else wheel_names.meaning(last)


def on_the_line(words: Sequence[str], begin: int, declared: Sequence[Flag], later: Mapping[str, int]) -> Iterator[Belief]:
    """Settings that the command itself says. ``later``: keys of configuration files with their places; behind a flag, they overrule it."""
    known = {name: flag for flag in declared for name in (*flag.names, flag.spelling.removeprefix("switch:").split("/")[0])}
    for at, word in enumerate(words[begin:], start=begin):
        name, equals, value = word.partition("=")
        glued = re.fullmatch(r"(-[A-Za-z])(\d[\d.]*)", word)
        if glued is not None:
            name, value = glued.groups()
        wheel = trained_with(name, meaning(name))
        flag = known.get(name)
        if flag is not None and wheel is None:
            wheel = meaning(flag.spelling)
        if wheel is None or not (name.startswith("-") or equals or YACS.fullmatch(name)) or later.get(name.lstrip("-"), -1) > at:
            continue
        if glued is not None:
            yield Belief(wheel=wheel, value=typed(value), spelling=name, source=COMMAND_LINE)
        elif not equals and flag is not None and flag.spelling.startswith("switch:"):
            yield Belief(wheel=wheel, value=True, spelling=flag.spelling, source=COMMAND_LINE)
        elif equals:
            yield Belief(wheel=wheel, value=typed(value), spelling=f"{name.lstrip('+')}=", source=COMMAND_LINE)
        elif at + 1 < len(words) and not words[at + 1].startswith("--"):
            yield Belief(wheel=wheel, value=typed(words[at + 1]), spelling=name, source=COMMAND_LINE)


def upright(found: Sequence[Belief]) -> list[Belief]:
    """The candidates, those that say the contrary (``disable_gradient_checkpointing``) turned round."""
    contrary = [isinstance(one.value, bool) and wheel_names.negated(batches.name(one.spelling)) for one in found]
    return [
        replace(one, value=not one.value, spelling=f"{NOT}{one.spelling}") if turned else one
        for one, turned in zip(found, contrary, strict=True)
    ]


def _listed(held: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Any, str]]]:
    """(key, (value, file)) of each batch that the configuration files say within a list."""
    for path, values in held.items():
        for key, value in configs.in_lists(values):
            if trained_with(key, meaning(key)) == "micro_batch" and isinstance(value, int):
                yield key, (value, path)


def in_lists(held: Mapping[str, Any]) -> str:
    """That several entries of a list say a batch; nothing where they don't."""
    found = list(_listed(held))
    said = " and ".join(f"{key} {value} in {path}" for key, (value, path) in found[:2])
    return f"several entries of a list say a batch ({said}), which autofit doesn't turn together" if len(found) > 1 else ""


def other_unit(found: Sequence[Belief]) -> Belief | None:
    """What says that batches are counted in frames or tokens: the last word of the most telling place."""
    units = [one for one in found if one.wheel == batches.UNIT]
    said = [one for one in units if _rank(one) == min(map(_rank, units))]
    return said[-1] if said and wheel_names.other_unit(said[-1].value) else None


def counts_otherwise(belief: Belief, unit: Belief) -> str:
    counted = f"counts {str(unit.value).removesuffix('s')}s and not samples" if unit.value is not True else "isn't what batches hold"
    return f"{belief.spelling} {belief.value} {counted} ({unit.spelling} {unit.value}, {unit.source}), {_NOT_TURNED}"


def bounded(found: Sequence[Belief]) -> str:
    """That a setting bounds batches by their tokens or frames; nothing where none does."""
    said = next((f"{one.spelling} {one.value}" for one in found if one.wheel == batches.BOUND), "")
    return f"{said} bounds its batches by tokens or frames, {_NOT_TURNED}" if said else ""


_NOT_TURNED = (
    "which autofit doesn't turn: give it batches of so many samples, where the script can, or name the value of its source that says how "
    "many (autofit run --set NAME -- ...)"
)


_ELSEWHERE = re.compile(r"(^|[._])(val|valid|validation|eval|evaluation|test|infer|inference|predict)([._]|$)")


def trained_with(key: str, wheel: str | None) -> str | None:
    """What a key's last name means under its section: in one of validation the micro-batch is the validation's, and the rest is nothing."""
    if wheel is None or wheel == "val_micro_batch" or key.startswith("-") or not _ELSEWHERE.search(key.lower().lstrip("+")):
        return wheel
    return "val_micro_batch" if wheel in ("micro_batch", batches.WHOLE) else None


def held_files(config: Sequence[str]) -> dict[str, Any]:
    """Path -> what the file holds, of those that can be read, in the command's order."""
    found = {}
    for path in config:
        with contextlib.suppress(ValueError):
            found[path] = configs.held(path)
    return found


def in_config(held: Mapping[str, Any], behind: str | None) -> Iterator[Belief]:
    """Keys of the configuration files; of several that say a key the last counts. A validation section's batch is the validation's.
    ``behind``: the option of the command by which it overrules them (``overrides``)."""
    said = {key: (value, path) for path, values in held.items() for key, value in configs.leaves(values)}
    listed = list(_listed(held))
    for key, (value, path) in {**said, **dict(listed if len(listed) == 1 else [])}.items():
        wheel = trained_with(key, meaning(key)) if len(batches.name(key)) > 1 else None  # -b is a flag; a key B is some model's
        if wheel is not None and (_can_be(wheel, value) or wheel == batches.UNIT):
            yield Belief(wheel=wheel, value=value, spelling=overrides.spelled(key, behind) or f"config:{key}", source=path)


def _can_be(wheel: str, value: Any) -> bool:
    """A truth is no length: ``pad_to_sequence_len: false``."""
    return isinstance(value, (int, float)) and not (isinstance(value, bool) and wheel in ("segment", "sequence_length", "image_size"))


def later_files(words: Sequence[str], begin: int, held: Mapping[str, Any]) -> dict[str, int]:
    """Key -> where the last configuration file stands that says it, for a parser that takes flags and files in their order."""
    places = {path: at for at, word in enumerate(words) if at >= begin for path in held if word == path or word.endswith(f"={path}")}
    return {key: places[path] for path, values in held.items() if path in places for key, _ in configs.leaves(values)}


def in_python(files: Sequence[Path], behind: str | None) -> Iterator[Belief]:
    """What configuration files say that are Python among the arguments: of mmengine's kind where the command overrules them (``behind``),
    else of nanoGPT's, over the script's own names."""
    for key, value in {key: value for path in files if behind for key, value in configs.in_python(path)}.items():
        if (wheel := trained_with(key, meaning(key))) is not None:
            yield Belief(wheel=wheel, value=value, spelling=f"{behind} {key}=", source=str(files[-1]))
    for path in files if behind is None else ():
        for name, value in configs.numbers_in_python(path).items():
            wheel = meaning(name)
            if wheel is not None:
                yield Belief(wheel=wheel, value=value, spelling=name, source=f"{path} (config)")


def defaults(declared: Sequence[Flag], arguments: Sequence[str]) -> Iterator[Belief]:
    """Flags that the script has, at their defaults. A parser that got all of its arguments from one JSON file takes no flag beside it."""
    alone = arguments[0] if len(arguments) == 1 and arguments[0].endswith(".json") else None
    for flag in declared:
        name = flag.spelling.removeprefix("switch:").split("/")[0].rstrip("=")
        wheel = meaning(name)
        if wheel is not None and (isinstance(flag.default, (bool, int, float)) or (wheel == batches.UNIT and flag.default is not None)):
            spelling = f"config+:{name.lstrip('-')}" if alone is not None else flag.spelling
            yield Belief(wheel=wheel, value=flag.default, spelling=spelling, source=f"{flag.where}'s default")
