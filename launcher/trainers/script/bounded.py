"""Recognises batches that hold as many samples as make up so many tokens or frames: each is taken in parts. Pure.

``--max-tokens 4096``, ``batch_size_type: frame``. The bound itself is not turned, because a smaller one packs other samples together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from launcher.adapter import wheel_names
from launcher.adapter.recognised import Belief, Doubt
from launcher.trainers.script import batches
from launcher.trainers.script.candidates import COMMAND_LINE, counts_otherwise, other_unit
from launcher.trainers.script.spelling import PARTS

MOST_PARTS = 64


class Bounded(NamedTuple):
    """What is known of such batches."""

    belief: Belief
    unit: str
    """In the plural."""


def counted_so(belief: Belief, found: Sequence[Belief]) -> tuple[Bounded | None, list[Doubt]]:
    """A batch size that another setting says to count frames or tokens; a doubt where it doesn't say what batches hold (SpeechBrain)."""
    unit = other_unit(found)
    if unit is None:
        return None, []
    if unit.value is True or not batches.is_count(belief.value):
        return None, [Doubt(wheel="micro_batch", text=counts_otherwise(belief, unit))]
    counted = str(unit.value).lower()
    named = next((f"{one}s" for one in ("token", "frame", "second") if counted.startswith(one)), counted)
    source = f"{belief.source}; counts {named} by {unit.spelling}"
    return Bounded(replace(belief, spelling=f"{PARTS}:{belief.spelling}", source=source), named), []


def bound(found: Sequence[Belief]) -> Bounded | None:
    """The setting that bounds batches by its name; None where there is none, or several."""
    said = [one for one in found if one.wheel == batches.BOUND and batches.is_count(one.value)]
    near = [one for one in said if one.source == COMMAND_LINE] or said
    if len({one.spelling for one in near}) != 1:
        return None
    unit = next(one for one in wheel_names.PER_BATCH if one in batches.name(near[-1].spelling).lower())
    return Bounded(replace(near[-1], wheel="micro_batch", spelling=f"{PARTS}:{near[-1].spelling}"), unit)


def doubts(bounded: Bounded, accumulation: Any, *, ranks: int) -> list[Doubt]:
    """Why such batches can't be taken in parts."""
    word, value = bounded.belief.spelling.removeprefix(f"{PARTS}:"), bounded.belief.value
    parts = f"its batches are bounded by {word} ({value} {bounded.unit}), so that autofit would take each of them in parts"
    if ranks > 1:
        return [Doubt(wheel="micro_batch", text=f"{parts}, which it does in one process and not in {ranks}: start one")]
    if accumulation not in (None, 1):
        why = f"the script counts {accumulation} batches to a step by itself, and would count parts"
        return [Doubt(wheel="micro_batch", text=f"{parts}; but {why}: say 1 for its accumulation and {accumulation} times the {word}")]
    return []


def values(asked: int) -> list[int]:
    """What the micro-batch is lowered to: halves, where the bound has them, else whole parts."""
    parts = [number for number in range(2, MOST_PARTS + 1) if asked % number == 0]
    halves = [number for number in parts if number & (number - 1) == 0]
    return [asked // number for number in (halves if len(halves) > 1 else parts)]
