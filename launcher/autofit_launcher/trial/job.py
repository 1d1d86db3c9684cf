"""A checked launch before its first trial: the recipe's adapter, its ladder, the budget and the run folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from autofit_launcher.adapter.protocol import Adapter
from autofit_launcher.config.schema import Recipe
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.ladder.rungs import Ladder
from autofit_launcher.machine.device_lock import Turn
from autofit_launcher.machine.devices import Budget
from autofit_launcher.machine.forks import Forks

Say = Callable[[str, str], object]
"""Shows the person a line in a style of rich's."""


def quiet(words: str, style: str) -> None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A recipe that can be tried: everything that can be checked without running the trainer has been."""

    adapter: Adapter
    """The adapter, bound to the recipe."""
    ladder: Ladder
    budget: Budget
    folder: RunFolder
    turn: Turn = field(default_factory=Turn)
    """The launch's turn on the device; given back when the launch is over."""
    forks: Forks = field(default_factory=Forks)
    """The process off which its trials and twins are forked."""
    say: Say = quiet
    comes_to: Callable[[int, str], object] = field(default=lambda pid, phase: None)
    """Called when a trial is seen to come to a phase, with its process's number."""

    @property
    def recipe(self) -> Recipe:
        return self.adapter.recipe

    @property
    def training(self) -> str:
        """Name of what is trained, by which fits are kept."""
        ranks = f", {len(self.budget.ranks)} ranks" if self.budget.ranks else ""
        return f"{self.recipe.name} ({self.adapter.name}{ranks})"
