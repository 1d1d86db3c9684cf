"""What an adapter says of a rung as plain values: commands, what a trial needs, checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from launcher.config.schema import Value
from launcher.machine import process
from launcher.machine.devices import Budget


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One process to start."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables set on top of the launcher's own environment."""
    files: Mapping[Path, str] = field(default_factory=dict)
    """Files to write first: path -> text."""

    def shell(self) -> str:
        """The command as a person would type it."""
        import shlex

        return " ".join([*(f"{key}={shlex.quote(value)}" for key, value in self.env.items()), *map(shlex.quote, self.argv)])


def script_among(words: Iterable[str]) -> str | None:
    """The first of a command's words that is a Python file's name; None where there is none."""
    return next((word for word in words if word.endswith(".py") and not word.startswith("-")), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialPlan:
    """What the child of one trial is told, beside what every trial is told."""

    module: str
    """Dotted name of the worker module whose ``run(job, recorder)`` is this trainer's trial."""
    payload: Mapping[str, Any]
    """The trainer's own words for this rung, as JSON."""
    expects: Mapping[str, Value] = field(default_factory=dict)
    """What must be observed, for wheels whose value is not what the trainer is told (an "at most", say)."""
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A whole checkpoint of a run: it was loaded, or held against its own checksums, and its weights are finite as far as that was seen."""

    path: Path
    done: float
    """How far it has come, in ``unit``."""
    unit: str
    """"epochs" or "steps"; of a script, whose checkpoints can't be read, "seconds": when it was written."""
    finished: bool = False
    """All of the training is done; what is left is the trainer's own end: the last evaluation."""

    def __str__(self) -> str:
        return f"{self.path} ({self.done:g} {self.unit})" if self.unit != "seconds" else str(self.path)


def absolute(path: str) -> str:
    """An absolute path, where it is one of this machine: a native command works from anywhere."""
    local = Path(path).expanduser()
    return str(local.absolute()) if local.exists() else path


def copies(names: Sequence[str], *, of: Path, to: Path) -> dict[Path, str]:
    """The files of those names in the folder ``of``, to be written to the folder ``to``: what a run folder needs of an adapter's own."""
    return {to / name: (of / name).read_text(encoding="utf-8") for name in names}


def budgeted(command: Command, budget: Budget, *, imports: Sequence[str]) -> Command:
    """The same program inside ``launcher.worker.budgeted``, which imports what the trial imported, takes the budget and runs it."""
    argv = command.argv[1:] if command.argv[0] in (sys.executable, "python", "python3") else command.argv
    return held_by("launcher.worker.budgeted", replace(command, argv=argv), budget, "--imports", ",".join(imports))


def held_by(module: str, command: Command, budget: Budget, *options: str) -> Command:
    """The command behind a module of autofit's that takes ``--device``, ``--device-uuid``, ``--idle-free`` and ``--bytes`` first.

    ``budget.free_bytes`` must be what is free on the card now (``run.start`` looks again).
    """
    card = ("--device-uuid", budget.uuid, "--idle-free", str(budget.free_bytes)) if budget.kind == "cuda" else ()
    limits = ("--device", budget.kind, *card, "--bytes", str(budget.budget_bytes))
    return replace(command, argv=process.python_module(module, *limits, *options, *command.argv))
