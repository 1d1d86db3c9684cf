"""The types of the command line: a verb, its call, its answer. Imports little, since ``--help`` needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from autofit_launcher.cli.terminal import Terminal
from autofit_launcher.errors import ExitCode

FIT_ONLY = "--fit-only"
ALLOW_BATCH = "--allow-batch"
"""The person accepts another effective batch than the asked one."""
ALLOW_DIFFERENCE = "--allow-difference"
"""The person accepts a rung whose update was shown to differ from the asked one, with that difference."""
GIVE_UP = "--give-up"
"""The person lets wheels turn that make another training: ``--give-up image_size,model``."""
CHECKPOINTING = "--checkpointing"
"""A part of the model's repeated modules may be checkpointed, from outside where the command has no word for it."""
SET = "--set"
"""The person names the value of the script's own that is its batch size: ``--set "CONFIG['batch']"``."""
TRIAL = "--trial"
FORGET = "--forget"
VALUED = (GIVE_UP, SET, TRIAL, FORGET)
"""Flags with a value: the word behind them, or behind their ``=``."""


class Takes(Enum):
    """The kind of thing that a verb works on. It decides how the words of a command line are read and completed."""

    RECIPE = "recipe"
    """recipe=NAME and overrides, for Hydra."""
    COMMAND = "command"
    """The user's command after ``--``; overrides before it."""
    EITHER = "either"
    """One or the other: a recipe, or a command after ``--``."""
    NAME = "name"
    """The name of a run, or of a recipe."""
    NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The end of a verb: the exit status, and the record that ``--json`` prints."""

    status: ExitCode
    record: Mapping[str, Any]


Task = Callable[[], Answer]
"""One job of a call. Raises BadInput, with all faults, if it can't be done."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call of a verb: its words, flags and command."""

    verb: str
    terminal: Terminal
    words: tuple[str, ...] = ()
    """Overrides and Hydra's own flags, as typed."""
    flags: frozenset[str] = frozenset()
    """The verb's own flags that were given, but for those with a value."""
    values: Mapping[str, str] = field(default_factory=dict)
    """The flags that were given with a value: flag -> value."""
    command: tuple[str, ...] = ()
    """Words after ``--``."""


def single(act: Callable[[Call], Answer]) -> Callable[[Call], Iterable[Task]]:
    """Makes ``run`` of a verb whose call is always one job."""
    return lambda call: [lambda: act(call)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verb:
    """A verb: its line in the help, and the function behind it."""

    name: str
    usage: str
    """Words that follow the name in the help."""
    help: str
    """One line."""
    takes: Takes
    run: Callable[[Call], Iterable[Task]]
    """The jobs of a call: one, or one for each combination of a multirun. Raises BadInput."""
    flags: tuple[str, ...] = field(default=())
    """Flags that only this verb has."""
    more: str = ""
    """More text for its own page of help."""
    examples: tuple[str, ...] = ()
    """Whole command lines."""
    keys: str = ""
    """Prefix of the keys that it takes, if it takes no recipe."""
