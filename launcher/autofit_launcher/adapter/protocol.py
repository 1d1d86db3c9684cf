"""The interface between autofit and a trainer. An adapter translates; it never runs, searches, judges or supervises.

To add a trainer, write a class that inherits ``Adapter``, in a folder or an installed package, and name it in the entry-point group
``autofit.adapters``. ``trainers.suite`` tests what it must do. What has a body here may be left out: the trainer then can't do it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from autofit_launcher.adapter import log_line
from autofit_launcher.adapter.commands import Checkpoint, Command, Inputs, TrialPlan
from autofit_launcher.adapter.log_line import LogLine, TrainerWords
from autofit_launcher.adapter.progress import Progress
from autofit_launcher.adapter.recognised import Understood
from autofit_launcher.config.schema import Recipe, WheelRule
from autofit_launcher.errors import Fault
from autofit_launcher.ladder.rungs import ActsIn, Ladder, Rung, Value
from autofit_launcher.ladder.same_training import Length
from autofit_launcher.ladder.twins import Finding
from autofit_launcher.machine import ranks
from autofit_launcher.machine.devices import Budget


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


NOT_FINITE = "its weights are not finite"
"""The reason, for people, why a checkpoint of a diverged training can't be used."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WheelSpec:
    """A wheel that a trainer has: what may stand under ``ask``, and how far it turns unless the recipe says otherwise."""

    type: type | tuple[type, ...]
    """The type that a value must have."""
    help: str
    """One line for the user: what it is."""
    rule: WheelRule = field(default_factory=WheelRule)
    acts_in: ActsIn = "both"


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStart:
    """The start of an attempt at the full run."""

    checkpoint: Checkpoint | None = None
    """The checkpoint it resumes from, with the same effective batch and schedule; None: it starts from the beginning."""
    attempt: int = 1
    """Number of the attempt, from 1, for the names of files it writes."""
    workers: int | None = None
    """Data loader workers, if other than the rung's."""


FIRST = RunStart()


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """Weights that a run has saved."""

    path: Path
    finite: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """Files that a run has saved. Only names were looked at."""

    place: Path
    """The file or folder that it saves to."""
    files: Sequence[Path] = ()
    """Everything that looks like a checkpoint, newest first, intact or not."""
    look: Callable[[Sequence[Path]], Mapping[Path, Checkpoint | str]] = lambda files: {}
    """Reads such files. File -> the intact checkpoint that it is, or why it can't be used (torn, corrupt, weights not finite); intact ones
    come first, and of them that which has come furthest."""
    weights: Callable[[float], Weights | None] = lambda since: None
    """Reads the weights that were saved last, after a time (seconds since 1970): output may hide a loss that isn't finite. None if there
    are none, or they can't be looked at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Correction:
    """A trainer's knowledge of a difference that twins have found. Every cure is proven before it is used."""

    cure: Mapping[str, Any] = field(default_factory=dict)
    """``trainer.args`` that correct the difference; empty where none are known."""
    told: str = ""
    """The reason why the update differs, if this trainer accumulates so by itself: the difference is reported and not refused."""
    doubted: str = ""
    """The reason why the finding doesn't prove that the update differs: the rung is launched then, and reported as not comparable."""


class Adapter(ABC):
    """Translates between autofit and one trainer: rungs into the trainer's own terms, its output and results back.

    Class attributes hold for any recipe; an instance is bound to one recipe. No method depends on another having been called.
    """

    name: ClassVar[str]
    """The adapter's name in ``trainer.adapter`` and in the entry point."""
    wheels: ClassVar[Mapping[str, WheelSpec]]
    general: ClassVar[bool] = False
    """True: the adapter takes any command, so it is asked only if no other adapter recognises it. Rung 0 is the command as it stands, whose
    settings were read from text, which is a guess: rung 0 is tried first, what its trial shows is what was asked, and nothing below it is
    tried if that disproves the reading."""
    words: ClassVar[TrainerWords] = TrainerWords()
    """The trainer's messages and their meaning."""
    ranks: ClassVar[bool] = False
    """True: its trials and its run can be started once on each of several devices (torchrun), and follow from that alone."""
    starts_ranks: ClassVar[bool] = False
    """True: its command starts its processes itself, on as many cards as it is given."""
    recipe: Recipe
    python: str = ""
    """Path of the interpreter that trains; empty where only the command itself knows."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    @classmethod
    def recognise(cls, words: Sequence[str], *, value: str = "") -> Understood | None:
        """Recognises what a user's command line asks for; None if it isn't one of this trainer's.

        ``value``, for a general adapter: which value of the program's own source the person says to be its batch size
        (``CONFIG['batch']``). Raises BadInput if it is this trainer's but doesn't train, or can't be followed.
        """
        return None

    @cached_property
    def asked(self) -> Asked:
        """The training that the recipe asks for. An adapter that has more to say replaces fields of ``super().asked``. Looks at no data."""
        return Asked(world_size=ranks.world_size(self.recipe.device.cards, self.recipe.device.kind))

    @abstractmethod
    def check(self) -> list[Fault]:
        """Finds all faults of the recipe's trainer arguments and data. Runs nothing and writes nothing."""

    def notes(self) -> Sequence[str]:
        """Sentences that a user should read before the first trial (a model starts without pretrained weights, say)."""
        return ()

    def lesser(self, wheel: str, asked: Value, *, floor: Value) -> Sequence[Value]:
        """Values below ``asked`` that this trainer knows for a wheel (smaller models, say), best first, down to ``floor``; may be empty.

        Raises ValueError, with a sentence for people, if ``floor`` means nothing for that wheel.
        """
        return ()

    def inputs(self, ladder: Ladder) -> Inputs:
        """Lists everything that its trials depend on, so that a fit can be kept."""
        return Inputs(unknown=f"the adapter {self.name} doesn't say what its trials hang on")

    def stand_in(self, place: Path) -> Recipe | None:
        """The recipe with small data at the assumed worst, which its ``prepare`` makes in ``place``: for a plan without data. None: it has
        none. This implementation is the recipe's own ``stand_in``."""
        words = tuple(word.replace("{data}", str(place)) for word in self.recipe.stand_in or ())
        return self.recipe.model_copy(update={"data": str(place), "prepare": words}) if words else None

    def believing(self, ran: Mapping[str, int], arrived: Mapping[str, Any]) -> Recipe | None:
        """The recipe with what rung 0 ran (setting -> value) in place of what was read; None if that is the same, or it isn't known how.

        ``arrived``: where its numbers arrive, in words of this trainer's by which a rung sets them -> what arrived.
        """
        return None

    @abstractmethod
    def trial(self, rung: Rung, budget: Budget, *, folder: Path, cache: Path) -> TrialPlan:
        """Plans how one rung is tried. ``folder``: the trial's own. ``cache``: shared by all trials of a launch."""

    @abstractmethod
    def command(self, rung: Rung, budget: Budget, *, folder: Path, start: RunStart = FIRST) -> Command:
        """The full run at ``rung``, as the trainer's own native command. ``folder``: the run folder."""

    def small(self, chosen: Rung, asked: Rung) -> Sequence[tuple[int, int]]:
        """Returns (micro-batch, accumulation) of two twins of one optimizer step: laid out as asked, and row by row.

        Empty if this trainer's steps can't be made smaller: then no rung is proven to train the same.
        """
        return ()

    def twin(self, rung: Rung, budget: Budget, *, folder: Path) -> Command:
        """The full run at ``rung`` as a twin: with a short length, if an argument gives it."""
        raise NotImplementedError

    def corrected(self, finding: Finding) -> Correction:
        """Tells what this trainer knows of a difference between twins of two layouts, and how it may be put right."""
        return Correction()

    def read_log(self, line: str, known: Progress, *, rung: Rung) -> LogLine:
        """Reads one more line of the full run's output. ``known``: how far the run had come before it.

        This implementation reads what most training loops print (``log_line.read``).
        """
        return log_line.read(line, known)

    @abstractmethod
    def results(self, *, folder: Path) -> Mapping[str, Any]:
        """Reads from the trainer's files what a finished run has left: paths of checkpoints, say."""

    def saved(self, folder: Path) -> Saved:
        """Finds what the run of this run folder has saved."""
        return Saved(place=folder / "run")

    def edited(self, *, since: float) -> Sequence[str]:
        """Files of the person's own training that were written since then (seconds since 1970)."""
        return ()


def row_by_row(asked: Rung) -> Sequence[tuple[int, int]]:
    """The layouts of ``Adapter.small`` for a trainer whose full run takes any micro-batch."""
    most = 4 if asked.micro_batch >= 4 else 2 if asked.micro_batch >= 2 else 0
    return [(most, asked.accumulation), (1, asked.accumulation * most)] if most else []
