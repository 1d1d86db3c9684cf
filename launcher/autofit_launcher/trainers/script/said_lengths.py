"""Reads how long a training is, in steps or passes: by which names that is said, and what it amounts to."""

from __future__ import annotations

from collections.abc import Mapping

from autofit_launcher.adapter import wheel_names
from autofit_launcher.ladder.course import Length
from autofit_launcher.trainers.script.spelling import name as bare


def is_length(name: str) -> bool:
    return wheel_names.counts_steps(name) or wheel_names.counts_passes(name)


def length(lengths: Mapping[str, int], *, one_kind: bool) -> Length | None:
    """Returns the length if one word alone says it. ``one_kind``: as the command stands a step is an optimizer step."""
    if len(lengths) != 1:
        return None
    ((spelled, asked),) = lengths.items()
    if wheel_names.counts_passes(bare(spelled)):
        return Length(word=spelled, passes=asked)
    of_a_pass = "epoch" in bare(spelled).lower()  # --steps-per-epoch
    return Length(word=spelled, updates=asked) if one_kind and not of_a_pass else None
