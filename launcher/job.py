"""What is handed down whole: a recipe that can be tried, with everything that was found out before the first trial."""

from __future__ import annotations

from dataclasses import dataclass, field

from launcher.devices import Budget
from launcher.ladder import Ladder
from launcher.record import RunFolder
from launcher.schema import Recipe
from launcher.trainers.base import Adapter
from launcher.turns import Turn


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A recipe that can be tried: everything that can be checked without running the trainer has been."""

    adapter: Adapter
    """Bound to the recipe."""
    ladder: Ladder
    budget: Budget
    folder: RunFolder
    turn: Turn = field(default_factory=Turn)
    """On the device; given back when the launch is over."""

    @property
    def recipe(self) -> Recipe:
        return self.adapter.recipe
