"""Tells the micro-batch from the whole batch of a command that names both, and works out the accumulation.

``--batch_size 128 --micro_batch_size 4``, ``--global-batch-size 512 --micro-batch-size 2``, ``--total-batch-size 8192`` tokens beside
``--device-batch-size 32 --max-seq-len 128``: the script takes as many micro-batches to a step as the whole batch needs, by itself. Only the
part is changed then. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

from launcher.adapter import wheel_names
from launcher.adapter.recognised import Belief
from launcher.trainers.script.spelling import ALL, ITSELF, VALUE

WHOLE = "whole_batch"
"""What a candidate means that says the batch of an optimizer step; no wheel."""


BOUND = "batch_bound"
"""What a candidate means that bounds a batch by its tokens or frames; no wheel by itself."""
UNIT = "batch_unit"
"""What a candidate means that says what batches are counted in; no wheel."""
_LENGTHS = ("sequence_length",)


def settled(candidates: Sequence[Belief], *, ranks: int, in_tokens: Callable[[str], bool]) -> list[Belief]:
    """The candidates with whole and part told apart. ``in_tokens``: whether the script counts a setting of this name in tokens.

    A whole of which it isn't clear how many micro-batches it takes stays among them (``WHOLE``): then accumulation isn't known.
    """
    batches = [one for one in candidates if one.wheel in ("micro_batch", WHOLE)]
    parts = [one for one in batches if wheel_names.part(name(one.spelling))] or _beside_a_whole(batches)
    wholes = [one for one in batches if one not in parts]
    others = [one for one in candidates if one not in wholes]
    part, whole = _only(parts), _only(wholes)
    if part is None and whole is not None and whole.wheel == WHOLE and not parts:  # nothing says that it is taken in parts
        own = _of_each(whole, ranks)
        return [*(one for one in others if one.wheel != WHOLE), own or whole]
    if part is None or whole is None:
        return [one for one in candidates if one.wheel != WHOLE]
    said = next((one.value for one in candidates if one.wheel == "accumulation"), None)
    if said is not None and is_count(whole.value):  # all three are said: they must agree
        agree = is_count(part.value) and is_count(said) and whole.value == part.value * said * ranks
        return others if agree or whole.wheel == WHOLE else list(candidates)
    unclear = list(candidates) if whole.wheel == WHOLE else [one for one in candidates if one.wheel != WHOLE]
    if not is_count(whole.value):
        return unclear
    if not is_count(part.value):  # -1: the whole batch at once
        part, others = replace(part, value=whole.value), [one for one in others if one not in parts]
        others.append(part)
    length = _length(candidates) if in_tokens(name(whole.spelling)) else 1
    if ranks > 1 or length is None or whole.value % (part.value * length):
        return unclear
    tokens = f" tokens in parts of {part.value} x {length}" if length > 1 else f" in parts of {part.value}"
    belief = Belief(
        wheel="accumulation", value=whole.value // (part.value * length), spelling=ITSELF, source=f"{whole.spelling} {whole.value}{tokens}"
    )
    return [*(one for one in others if length == 1 or one.wheel not in _LENGTHS), belief]  # a shorter length would make other steps of it


def _of_each(whole: Belief, ranks: int) -> Belief | None:
    """The micro-batch of each process, where a setting says that of all together; None where they can't share it."""
    if ranks == 1:
        return replace(whole, wheel="micro_batch")
    if not is_count(whole.value) or whole.value % ranks:
        return None
    source = f"{whole.value} of {whole.source}, for {ranks} processes"
    return replace(whole, wheel="micro_batch", value=whole.value // ranks, spelling=f"{ALL}:{whole.spelling}", source=source)


def _beside_a_whole(batches: Sequence[Belief]) -> list[Belief]:
    """Plain batch sizes where another setting says the whole batch: they are the parts of it."""
    return [one for one in batches if one.wheel != WHOLE] if any(one.wheel == WHOLE for one in batches) else []


def _length(candidates: Sequence[Belief]) -> int | None:
    """Tokens of a sample, where that is clear."""
    found = _only([one for one in candidates if one.wheel in _LENGTHS])
    return found.value if found is not None and is_count(found.value) else None


def name(spelling: str) -> str:
    """The bare last name of a spelling: ``config:train.batch_size`` and ``--train.batch_size=`` have the same."""
    if spelling.startswith(f"{VALUE}:"):
        return next(iter(reversed(re.findall(r"\w+", spelling))), "")
    bare = re.sub(r"^(all:)?(not:)?(switch|config|config\+|env|call):", "", spelling).split("/")[0].rstrip("=")
    return re.split(r"[ .]", bare)[-1]


def _only(found: Sequence[Belief]) -> Belief | None:
    """The first, if all that stand as near say the same word."""
    near = [one for one in found if one.source == found[0].source]
    return near[0] if near and len({one.spelling for one in near}) == 1 else None


def is_count(value: Any) -> TypeGuard[int]:
    """Whether it is a whole number above 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def by_nominal(nominal: int, micro_batch: int) -> int | None:
    """Micro-batches to a step that a script takes which accumulates up to a nominal batch, as YOLOv5 does: round(64 / batch), at least 1.

    None where lower micro-batches would change the step: neither of the two is a multiple of the other.
    """
    if nominal % micro_batch and micro_batch % nominal:
        return None
    return max(nominal // micro_batch, 1)
