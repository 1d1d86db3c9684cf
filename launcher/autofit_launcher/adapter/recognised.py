"""A user's command line, as far as an adapter understands it. Plain values; runs nothing."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from autofit_launcher.errors import BadInput, Fault, did_you_mean
from autofit_launcher.ladder.rungs import AS_ASKED, CHECKPOINTING, MICRO_BATCH


@dataclass(frozen=True, kw_only=True, slots=True)
class Belief:
    """One setting of the command, and the wheel it is taken for."""

    wheel: str
    value: Any
    spelling: str
    """The setting as the command spells it."""
    source: str
    """The place where the value was found, in words."""

    def __str__(self) -> str:
        return self.source if self.spelling == "outside" else f"{self.spelling} ({self.source})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Understood:
    """A command as far as it is understood, in the form of a recipe that asks for the same."""

    adapter: str
    words: tuple[str, ...]
    beliefs: tuple[Belief, ...] = ()
    doubt: str = ""
    """The reason why its batch isn't known, and what to type to settle it; empty where it is, or the first trial shows it."""
    groups: tuple[str, ...] = ()
    """Options of configuration groups that the recipe builds on, as ``group: option``."""
    ask: Mapping[str, Any] = field(default_factory=dict)
    """The configuration as the command has it: rung 0."""
    args: Mapping[str, Any] = field(default_factory=dict)
    """``trainer.args``: the trainer's native arguments."""
    device: Mapping[str, Any] = field(default_factory=dict)
    """Keys of ``device`` for the cards that the command names to train on."""
    data: str | None = None
    task: str | None = None
    ladder: Mapping[str, Any] = field(default_factory=dict)
    """``order`` and ``wheels``, if they differ from the groups' own."""


def free_batch(understood: Understood) -> Understood:
    """The same, but the micro-batch may go down without more accumulation (``--allow-batch``)."""
    if MICRO_BATCH not in understood.ask:
        return understood
    wheels = {name: rule for name, rule in understood.ladder.get("wheels", {}).items() if name != MICRO_BATCH}
    order = [MICRO_BATCH, *(name for name in understood.ladder["order"] if name != MICRO_BATCH)]
    return replace(understood, ladder={"order": order, **({"wheels": wheels} if wheels else {})})


def giving_up(understood: Understood, names: Sequence[str]) -> Understood:
    """The same with a ladder that turns nothing unasked but what leaves the training as it is, and ``names`` (``--give-up``).

    Rules of the others stay, so that the end can say what they would do. Raises BadInput for names that can't be given up.
    """
    order = understood.ladder.get("order") or [name for name in AS_ASKED if name in understood.ask]
    could = [name for name in order if name not in AS_ASKED and name in understood.ask]
    faults = [_not_given_up(name, could) for name in names if name not in could]
    if faults:
        raise BadInput(faults)
    order = [name for name in order if name in AS_ASKED or name in names]
    return replace(understood, ladder={**understood.ladder, "order": order})


def _not_given_up(name: str, could: Sequence[str]) -> Fault:
    cure = f"{did_you_mean(name, could)}It has {', '.join(could)}." if could else "Leave it out."
    return Fault(key="", where="--give-up", found=f"{name!r} is nothing that this command could give up", cure=cure)


def checkpointed(understood: Understood) -> Understood:
    """The same, but where the trainer has no word for checkpointing the model's repeated modules may be checkpointed from outside
    (``--checkpointing``), once the micro-batch is down."""
    if CHECKPOINTING in understood.ask or "spelled" not in understood.args:
        return understood
    args = {**understood.args, "spelled": {**understood.args.get("spelled", {}), CHECKPOINTING: "outside"}}
    order = [*understood.ladder.get("order", ())]
    at = order.index(MICRO_BATCH) + 1 if MICRO_BATCH in order else 0
    wheels = {**understood.ladder.get("wheels", {}), CHECKPOINTING: {"values": [True]}}
    ladder = {"order": [*order[:at], CHECKPOINTING, *order[at:]], "wheels": wheels}
    return replace(understood, ask={**understood.ask, CHECKPOINTING: False}, args=args, ladder=ladder)


def typed(word: str) -> Any:
    """A word of a command line as the value it spells: a literal of Python's, true, false, none in any case, or the word itself.

    As Ultralytics' cfg/__init__.py (smart_value) and Hydra read theirs.
    """
    with suppress(ValueError, SyntaxError):
        return ast.literal_eval({"none": "None", "true": "True", "false": "False"}.get(word.lower(), word))
    return word
