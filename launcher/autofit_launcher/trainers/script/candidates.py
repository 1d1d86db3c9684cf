"""Finds what each place of a command says of its settings (words, configuration files, script's defaults), and which place counts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

from autofit_launcher.adapter import wheel_names
from autofit_launcher.adapter.python_source import parsed
from autofit_launcher.adapter.recognised import Belief, typed
from autofit_launcher.trainers.script import configs
from autofit_launcher.trainers.script.declared import Flag, numbers
from autofit_launcher.trainers.script.spelling import YACS, name

COMMAND_LINE = "command line"
"""The source of a belief that the command itself says."""
WHOLE = "whole_batch"
"""The meaning of a candidate that says the batch of an optimizer step; no wheel."""
HOW_LONG = "how_long"
"""The meaning of a candidate that says how long training is, in steps or passes; no wheel."""
LENGTHS = ("segment", "sequence_length", "image_size")


def believed(candidates: Sequence[Belief]) -> tuple[dict[str, Belief], list[str]]:
    """Picks for each wheel the candidate from the most telling place; says in words where that place says two things."""
    beliefs: dict[str, Belief] = {}
    unclear = []
    for wheel in (*wheel_names.NAMES, WHOLE):
        found = [belief for belief in candidates if belief.wheel == wheel]
        best = [belief for belief in found if _rank(belief) == min(map(_rank, found))]
        if len({belief.spelling for belief in best}) > 1:
            unclear.append(f"{wheel} could be {' or '.join(f'{belief.spelling} ({belief.value})' for belief in best)}")
        elif best:
            beliefs[wheel] = best[-1 if best[0].source == COMMAND_LINE else 0]  # a word that is said twice means what it says last
    return beliefs, unclear


def _rank(belief: Belief) -> int:
    return 0 if belief.source == COMMAND_LINE else 2 if is_default(belief) else 1


def is_default(belief: Belief) -> bool:
    return belief.source.endswith("'s default")


def in_parts(candidates: Sequence[Belief]) -> list[Belief]:
    """The candidates with whole and part told apart: a plain batch size beside one that is a part of it (``--micro_batch_size``) is the
    whole, and a plain one beside a whole (``--total-batch-size``) the part. A whole alone is each process's own."""
    batches = [one for one in candidates if one.wheel in ("micro_batch", WHOLE)]
    parts = [one for one in batches if one.wheel != WHOLE and wheel_names.part(name(one.spelling))]
    wholes = [one for one in batches if one.wheel == WHOLE]
    if parts and not wholes:
        return [replace(one, wheel=WHOLE) if one in batches and one not in parts else one for one in candidates]
    if wholes and len(wholes) == len(batches):
        return [replace(one, wheel="micro_batch") if one in wholes else one for one in candidates]
    return list(candidates)


def counted_out(candidates: Sequence[Belief]) -> dict[str, int]:
    """Spelling -> how long training is, wherever it is said. A word of the command counts in the place of its default."""
    said = [one for one in candidates if one.wheel == HOW_LONG]
    typed_out = {_word(one) for one in said if one.source == COMMAND_LINE}
    numbers = {one.spelling: one.value for one in said if one.source == COMMAND_LINE or _word(one) not in typed_out}
    counts = {spelling: value for spelling, value in numbers.items() if isinstance(value, (int, float)) and value is not True}
    return {spelling: int(value) for spelling, value in counts.items() if value > 0 and value == int(value)}


def _word(belief: Belief) -> str:
    return belief.spelling.removeprefix("switch:").rstrip("=")


def is_count(value: Any) -> TypeGuard[int]:
    """Tells whether it is a whole number above 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


# ---- places

_ELSEWHERE = re.compile(r"(^|[._])(val|valid|validation|eval|evaluation|test|infer|inference|predict)([._]|$)")


def _meaning(key: str) -> str | None:
    """The wheel that a flag or key means by its last name, the whole batch, or how long training is. In a section of validation the batch
    is the validation's, and the rest is nothing."""
    last = name(key)
    wheel = WHOLE if wheel_names.whole(last) else HOW_LONG if wheel_names.counts_length(last) else wheel_names.meaning(last)
    if wheel is None or wheel == "val_micro_batch" or key.startswith("-") or not _ELSEWHERE.search(key.lower().lstrip("+")):
        return wheel
    return "val_micro_batch" if wheel in ("micro_batch", WHOLE) else None


def on_the_line(words: Sequence[str], begin: int, declared: Sequence[Flag]) -> Iterator[Belief]:
    """Settings that the command itself says."""
    known = {said: flag for flag in declared for said in (*flag.names, flag.bare)}
    for at, word in enumerate(words[begin:], start=begin):
        said, equals, value = word.partition("=")
        flag = known.get(said)
        wheel = _meaning(said) or (_meaning(flag.bare) if flag is not None else None)
        if wheel is None or not (said.startswith("-") or equals or YACS.fullmatch(said)):
            continue
        if equals:
            yield Belief(wheel=wheel, value=typed(value), spelling=f"{said.lstrip('+')}=", source=COMMAND_LINE)
        elif flag is not None and flag.spelling.startswith("switch:"):
            yield Belief(wheel=wheel, value=True, spelling=flag.spelling, source=COMMAND_LINE)
        elif at + 1 < len(words) and not words[at + 1].startswith("--"):
            yield Belief(wheel=wheel, value=typed(words[at + 1]), spelling=said, source=COMMAND_LINE)


def in_config(held: Any, path: str | None) -> Iterator[Belief]:
    """Keys of the configuration file."""
    for key, value in configs.leaves(held):
        wheel = _meaning(key) if len(name(key)) > 1 else None  # -b is a flag; a key B is some model's
        number = isinstance(value, (int, float)) and not (isinstance(value, bool) and wheel in LENGTHS)  # ``pad_to_sequence_len: false``
        if wheel is not None and number:
            yield Belief(wheel=wheel, value=value, spelling=key if YACS.fullmatch(key) else f"config:{key}", source=str(path))


def in_python(files: Sequence[Path], declared: Sequence[Flag]) -> dict[str, Any]:
    """Spelling -> number of a file that a nanoGPT-like script runs over its own names."""
    known = {flag.spelling for flag in declared}
    trees = [tree for path in files if (tree := parsed(path)[1]) is not None]
    said = {f"--{key}=": value for tree in trees for key, value in numbers(tree).items()}
    return {spelling: value for spelling, value in said.items() if spelling in known}


def defaults(declared: Sequence[Flag]) -> Iterator[Belief]:
    """Flags that the script has, at their defaults."""
    for flag in declared:
        wheel = _meaning(flag.bare)
        if wheel is not None and isinstance(flag.default, (bool, int, float)):
            yield Belief(wheel=wheel, value=flag.default, spelling=flag.spelling, source=f"{flag.where}'s default")
