"""How long a training is, in steps or passes, by its command's words, its configuration file and its script's defaults."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from launcher.adapter import wheel_names
from launcher.adapter.recognised import typed
from launcher.ladder.course import Length
from launcher.trainers.script import configs
from launcher.trainers.script.declared import Flag
from launcher.trainers.script.spelling import YACS
from launcher.trainers.script.spelling import name as bare


def said_in_file(held: Any) -> dict[str, Any]:
    """Spelling -> value of a configuration file."""
    return {key if YACS.fullmatch(key) else f"config:{key}": value for key, value in configs.leaves(held)}


def counted_out(words: Sequence[str], declared: Sequence[Flag], file: Mapping[str, Any]) -> dict[str, int]:
    """Spelling -> a number of steps, of whichever kind, or of passes over the data, wherever it is said. ``file``: what
    ``said_in_file`` gives."""
    found = _with_words({**{flag.spelling: flag.default for flag in declared}, **file}, words)
    numbers = {spelled: value for spelled, value in found.items() if is_length(bare(spelled)) and positive(value)}
    return {spelled: int(value) for spelled, value in numbers.items() if value == int(value)}


def _with_words(found: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """What the command itself says counts in the place of what was found of the same name."""
    found = dict(found)
    for word, after in itertools.pairwise([*words, ""]):
        name, equals, value = word.partition("=")
        if equals or name.startswith("-") or YACS.fullmatch(name):
            found = {spelled: said for spelled, said in found.items() if _name(spelled).lstrip("+") != name.lstrip("+")}
            found[f"{name.lstrip('+') if not name.startswith('-') else name}=" if equals else name] = typed(value if equals else after)
    return found


def is_length(name: str) -> bool:
    return wheel_names.counts_steps(name) or wheel_names.counts_passes(name)


def _name(spelling: str) -> str:
    return spelling.removeprefix("switch:").split("/")[0].rstrip("=").rpartition(" ")[2]


def positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def length(lengths: Mapping[str, int], *, one_kind: bool) -> Length | None:
    """Only where one word alone says it. ``one_kind``: as the command stands a step is an optimizer step."""
    if len(lengths) != 1:
        return None
    ((spelled, asked),) = lengths.items()
    if wheel_names.counts_passes(bare(spelled)):
        return Length(word=spelled, passes=asked)
    of_a_pass = "epoch" in bare(spelled).lower()  # --steps-per-epoch
    return Length(word=spelled, updates=asked) if one_kind and not of_a_pass else None
