"""The types of the command line: a verb, its call, its answer. Imports little, since ``--help`` needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from autofit_launcher.cli.say import Terminal
from autofit_launcher.errors import ExitCode, refusal


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
            found = f"autofit {self.verb} takes {f'one {what}' if most else 'nothing'}, and these are {len(self.words)}"
            raise refusal(f"{found}: {' '.join(self.words)}", f"See autofit {self.verb} --help.")
        return self.words

    def word(self, what: str, *, needed: bool = False) -> str:
        """The one word that a verb takes, or an empty one, as of a ``"$RUN"`` that isn't set. Raises BadInput where it is ``needed``."""
        word = next(iter(self.named(what)), "")
        if needed and not word:
            raise refusal(f"no {what} is named", f"autofit {self.verb} {what.upper()}; `autofit {what}s` lists them.")
        return word


@dataclass(frozen=True)
class Verb:
    """A verb: its line in the help, and the function behind it."""

    act: str
    """Module of this package and function that do it, which has the verb's name: what it needs is loaded only then."""
    usage: str
    """Words that follow the name in the help. They decide how those of a command line are read: RECIPE or KEY=VALUE for Hydra, a COMMAND
    behind ``--``, else names."""
    help: str
    """One line."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Flags that only this verb has, with a word for its value behind one that has any, and what they do."""

    @property
    def name(self) -> str:
        return self.act.rpartition(".")[2]

    @property
    def commands(self) -> bool:
        """True: it takes a command."""
        return "-- COMMAND" in self.usage

    @property
    def composes(self) -> bool:
        """True: its words make a recipe."""
        return self.commands or "recipe=" in self.usage

    @property
    def valued(self) -> Mapping[str, bool]:
        """Flags by name; True for one with a value, which stands behind it, or behind its ``=``."""
        return {name: bool(value) for name, _, value in (flag.partition(" ") for flag in self.flags)}

    def run(self, call: Call) -> Answer | Iterable[Task]:
        """Does it; returns its answer, or a job for each combination of a multirun. Raises BadInput."""
        act: Callable[[Call], Answer | Iterable[Task]] = getattr(import_module(f"{__package__}.{self.act.rpartition('.')[0]}"), self.name)
        return act(call)
