"""The seam between autofit and a trainer. An adapter translates; it never runs, searches, judges or supervises.

Adding a trainer is one module that implements ``Adapter``, named in the entry-point group ``autofit.adapters``; the contract
suite in ``tests/adapters/contract.py`` says what it owes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from launcher.contract.report import TrialReport
from launcher.devices import Budget
from launcher.errors import BadInput, Fault, did_you_mean
from launcher.ladder import ActsIn, Rung
from launcher.schema import Recipe, Value, WheelRule

GROUP = "autofit.adapters"


@dataclass(frozen=True, kw_only=True, slots=True)
class WheelSpec:
    """A wheel that a trainer knows: what may stand under ``ask`` and how far it turns unless the recipe says otherwise."""

    type: type | tuple[type, ...]
    """What a value must be."""
    help: str
    """One line: what it is, in the field's words."""
    rule: WheelRule = field(default_factory=WheelRule)
    acts_in: ActsIn = "both"


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One process to start."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables set on top of the launcher's own environment."""
    files: Mapping[Path, str] = field(default_factory=dict)
    """Files to write first: path -> text."""
    foreign: bool = False
    """A program of the person's own, in any interpreter and with processes of its own: a budget is taken from outside, in each of its
    Python processes, when that builds its first model (as in its trial), and not by a wrapper around it."""

    def shell(self) -> str:
        """The command as a person would type it."""
        import shlex

        return " ".join([*(f"{key}={shlex.quote(value)}" for key, value in self.env.items()), *map(shlex.quote, self.argv)])


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


class Adapter(Protocol):
    """Translates a rung into one trainer's own words, and its results back."""

    name: str
    wheels: Mapping[str, WheelSpec]

    def check(self, recipe: Recipe) -> list[Fault]:
        """Everything wrong with the recipe's trainer arguments and data, found without running anything. Writes nothing."""

    def accumulation(self, recipe: Recipe) -> int:
        """Gradient accumulation steps of the asked configuration, where the recipe doesn't say."""

    def lesser(self, recipe: Recipe, wheel: str, asked: Value, *, floor: Value) -> Sequence[Value]:
        """What this trainer can fall back to from ``asked``, best first, down to ``floor`` (smaller models, say); empty where it
        knows nothing. Raises ValueError, in words, for a floor that means nothing to it.
        """

    def notes(self, recipe: Recipe) -> Sequence[str]:
        """What a person should know before anything is tried (weights that will be trained from scratch, say)."""

    def fetch(self, recipe: Recipe, rung: Rung) -> Command | None:
        """What must be downloaded before this rung can be tried without a network; None where everything is here."""

    def trial(self, recipe: Recipe, rung: Rung, budget: Budget, *, folder: Path, cache: Path) -> TrialPlan:
        """The trial of one rung. ``folder`` is the trial's own, ``cache`` is shared by all trials of a launch."""

    def full_run(self, recipe: Recipe, rung: Rung, budget: Budget, *, folder: Path) -> Command:
        """The full run at ``rung``, as the trainer's own native command. ``folder`` is the launch's own."""

    def results(self, recipe: Recipe, *, folder: Path) -> Mapping[str, Any]:
        """What the finished run achieved, read from what the trainer wrote: metrics, where the checkpoints lie."""

    def runtime(self, command: Command) -> tuple[str, ...]:
        """The modules that a full run under an emulated budget imports before the budget is taken."""

    def estimate_seconds(self, recipe: Recipe, rung: Rung, report: TrialReport) -> float | None:
        """Estimated time of the full run, from the trial's step times; None where the trial can't say."""


def known_adapters() -> list[str]:
    """Names of the installed adapters."""
    return sorted(entry.name for entry in entry_points(group=GROUP))


def load_adapter(name: str) -> Adapter:
    """The adapter of that name.

    Raises BadInput naming the known ones.
    """
    found = [entry for entry in entry_points(group=GROUP) if entry.name == name]
    if not found:
        known = known_adapters()
        cure = f"{did_you_mean(name, known)}Known: {', '.join(known) or 'none; is autofit installed?'}."
        raise BadInput([Fault(key="trainer.adapter", found=f"unknown adapter {name!r}", cure=cure)])
    adapter: Adapter = found[0].load()()
    return adapter
