"""The values that a recipe asks of its trainer, as its adapter tells them. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autofit_launcher.ladder.same_training import Length


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The asked configuration beyond ``ask``: what only the trainer's own terms tell."""

    accumulation: int = 1
    """Gradient accumulation steps, if the recipe doesn't say."""
    world_size: int = 1
    """Processes that train together, each with its own micro-batch. Trials see how many there really are."""
    length: Length | None = None
    """The length of the training by its own arguments; None if they don't say it for certain."""
    counted: str = ""
    """The argument with the length in steps, if only twins can tell whether it counts micro-batches or optimizer steps: a rung whose steps
    aren't proven might then train too short. Empty: there is no such argument."""
    exact: frozenset[str] = frozenset()
    """Wheels that are turned from outside, of which twins show that the gradients stay the asked ones."""
    workers: int | None = None
    """Data loader workers; None if unknown, or if a run can't be started with fewer."""
    unturned: str = ""
    """The reason why a command's micro-batch isn't turned, in words; empty where it may be."""
    unseen_step: bool = False
    """True: the command takes a whole batch in parts by itself, and only a trial shows how many samples a batch has."""
    keeps: frozenset[str] | None = None
    """Wheels that may change with a checkpoint still loadable, at the same effective batch and schedule; None: it can't resume."""
    unsaid: frozenset[str] = frozenset()
    """Settings whose value stands neither in the command nor in a file that it names (a default in the source, say)."""
    told: frozenset[str] = frozenset()
    """Settings that rung 0, too, says to the command, since the recipe asks for another value than it has by itself. The value that ran is
    then not the command's own, and must be the one that was told."""
    read_at: Mapping[str, str] = field(default_factory=dict)
    """Setting of a command -> the place where its value was read, in words."""
