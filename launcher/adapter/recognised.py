"""A command line that a person already has, as far as a trainer's adapter understands it. Plain values; nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

MICRO_BATCH = "micro_batch"


@dataclass(frozen=True, kw_only=True, slots=True)
class Belief:
    """One setting, and what it is taken for."""

    wheel: str
    value: Any
    spelling: str
    """How the command says it, in the trainer's own words."""
    source: str
    """Where the value was found, in words."""

    def __str__(self) -> str:
        return f"{self.spelling} ({self.source})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Doubt:
    """What could mean two things, or nothing known."""

    wheel: str
    text: str
    """For people: what is in doubt, and the words that settle it."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, kw_only=True, slots=True)
class Understood:
    """A command, understood as far as it goes: what a recipe that says the same would hold."""

    adapter: str
    words: tuple[str, ...]
    beliefs: tuple[Belief, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    groups: tuple[str, ...] = ()
    """Options of configuration groups that the recipe builds upon, as ``group: option``."""
    ask: Mapping[str, Any] = field(default_factory=dict)
    """The configuration as the command has it: rung 0."""
    args: Mapping[str, Any] = field(default_factory=dict)
    """``trainer.args``: the trainer's native arguments."""
    data: str | None = None
    task: str | None = None
    ladder: Mapping[str, Any] = field(default_factory=dict)
    """``order`` and ``wheels``, where the groups' own are not meant."""
    comments: Mapping[str, str] = field(default_factory=dict)
    """Dotted key -> what a reader of the recipe is told beside it."""
    remarks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Dotted key of a section -> comment lines at its end."""
    told: str = ""
    """For people: what the command is that was understood, where they typed one that starts it."""


def free_batch(understood: Understood) -> Understood:
    """The same with a micro-batch that may go down without more accumulation: it turns even where it could not be kept whole."""
    order = [*understood.ladder.get("order", ())]
    if not order or MICRO_BATCH not in understood.ask:
        return understood
    wheels = {name: rule for name, rule in understood.ladder.get("wheels", {}).items() if name != MICRO_BATCH}
    order = [MICRO_BATCH, *(name for name in order if name != MICRO_BATCH)]
    return replace(understood, ladder={"order": order, **({"wheels": wheels} if wheels else {})})


def typed(word: str) -> Any:
    """A word of a command line as the value it spells: a literal of Python's, true, false, none in any case, or the word itself.

    As Ultralytics' cfg/__init__.py (smart_value) and Hydra read theirs.
    """
    lowered = word.lower()
    if lowered in ("none", "true", "false"):
        return {"none": None, "true": True, "false": False}[lowered]
    try:
        return ast.literal_eval(word)
    except (ValueError, SyntaxError):
        return word
