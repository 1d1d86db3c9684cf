"""What a verb is, what it is called with, and what it answers. Light: ``--help`` imports this."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from launcher.cli.terminal import Terminal
from launcher.errors import ExitCode


class Takes(Enum):
    """What a verb works on. It decides how the words of a command line are read and completed."""

    RECIPE = "recipe"
    """recipe=NAME and overrides, for Hydra."""
    COMMAND = "command"
    """A command of the person's after ``--``, whose words nobody else reads; overrides before it."""
    EITHER = "either"
    """One or the other: a recipe, or a command after ``--``."""
    FOLDER = "folder"
    """The folder of a run."""
    NAME = "name"
    """The name of a recipe."""
    NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """How a verb ended: the exit status, and what ``--json`` prints."""

    status: ExitCode
    record: Mapping[str, Any]


Task = Callable[[], Answer]
"""One thing to do. Raises BadInput, with all faults, where it can't be done."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """What a verb is called with."""

    verb: str
    terminal: Terminal
    words: tuple[str, ...] = ()
    """Overrides and Hydra's own flags, untouched."""
    flags: frozenset[str] = frozenset()
    """Those of the verb's own flags that were given."""
    command: tuple[str, ...] = ()
    """What stands after ``--``."""


def single(act: Callable[[Call], Answer]) -> Callable[[Call], Iterable[Task]]:
    """A verb whose call is one job."""
    return lambda call: [lambda: act(call)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verb:
    """One line of the help, and what is behind it."""

    name: str
    usage: str
    """What follows the name in the help."""
    help: str
    """One line."""
    takes: Takes
    run: Callable[[Call], Iterable[Task]]
    """The jobs that a call comes to: one, or one for each combination of a multirun. Raises BadInput as a job does."""
    flags: tuple[str, ...] = field(default=())
    """Flags that only this verb has."""
    more: str = ""
    """What its own page of help says beyond that line."""
    examples: tuple[str, ...] = ()
    """Whole command lines."""
    keys: str = ""
    """How the keys begin that it takes, where it takes no recipe."""
