"""The types of the command line: a verb, its call, its answer. Imports little, since ``--help`` needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from importlib import import_module
from typing import Any, NoReturn

from autofit_launcher.cli.say import Terminal
from autofit_launcher.errors import ExitCode, refusal


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
    flags: Mapping[str, str] = field(default_factory=dict)
    """The verb's own flags that were given, each with its value; without one it is empty."""
    command: tuple[str, ...] = ()
    """Words after ``--``."""

    def named(self, what: str, *, most: int = 1) -> tuple[str, ...]:
        """The words of a verb that takes no overrides. Raises BadInput for more of them, and for flags that it doesn't have."""
        if flag := next((word for word in self.words if word.startswith("-") and word != "-"), None):
            raise refusal(f"autofit {self.verb} doesn't know {flag}", f"See autofit {self.verb} --help.")
        if len(self.words) > most:
            these = f"these are {len(self.words)}: {' '.join(self.words)}"
            raise refusal(f"autofit {self.verb} takes one {what}, and {these}", "Name one.")
        return self.words

    def unnamed(self) -> NoReturn:
        """Raises BadInput where a run must be named; it also isn't by the ``"$RUN"`` of a shell where RUN isn't set."""
        raise refusal("no run is named", f"autofit {self.verb} RUN; `autofit runs` lists them.")

    def word(self, what: str) -> str:
        """The one word that a verb takes, or an empty one."""
        return next(iter(self.named(what)), "")


Act = Callable[[Call], Answer | Iterable[Task]]


@dataclass(frozen=True)
class Verb:
    """A verb: its line in the help, and the function behind it."""

    act: str
    """Module of this package and function that do it, which has the verb's name: what it needs is loaded only then."""
    usage: str
    """Words that follow the name in the help."""
    help: str
    """One line."""
    takes: Takes
    flags: Mapping[str, str] = field(default_factory=dict)
    """Flags that only this verb has, with a word for its value behind one that has any, and what they do."""
    more: str = ""
    """More text for its own page of help."""

    @property
    def name(self) -> str:
        return self.act.rpartition(".")[2]

    @property
    def valued(self) -> Mapping[str, bool]:
        """Flags by name; True for one with a value, which stands behind it, or behind its ``=``."""
        return {name: bool(value) for name, _, value in (flag.partition(" ") for flag in self.flags)}

    def run(self, call: Call) -> Answer | Iterable[Task]:
        """Does it; returns its answer, or a job for each combination of a multirun. Raises BadInput."""
        act: Act = getattr(import_module(f"{__package__}.{self.act.rpartition('.')[0]}"), self.name)
        return act(call)
