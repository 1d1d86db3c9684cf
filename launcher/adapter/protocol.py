"""The seam between autofit and a trainer. An adapter translates; it never runs, searches, judges or supervises.

Adding a trainer is one folder (or one installed package) with a class that inherits ``Adapter``, named in the entry-point group
``autofit.adapters``; ``launcher.trainers.suite`` says what it owes and tests it.

Whatever an adapter may leave out has a body in the class that it inherits. A whole ability is a class of its own, to be inherited beside
``Adapter``: ``Resumes``, ``Proves``, ``OwnWords`` and ``Traceable``. An adapter has one exactly if it is an instance of it (``ability``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from launcher.adapter import log_line
from launcher.adapter.commands import Checkpoint, Command, TrialPlan
from launcher.adapter.inputs import Inputs
from launcher.adapter.log_line import LogLine, TrainerWords
from launcher.adapter.progress import Progress
from launcher.adapter.recognised import Understood
from launcher.config.schema import Recipe, Value
from launcher.errors import Fault
from launcher.ladder.build import WheelSpec
from launcher.ladder.course import Length
from launcher.ladder.rungs import Ladder, Rung
from launcher.ladder.twins import Finding
from launcher.machine.devices import Budget
from launcher.shared.report import TrialReport

NOT_FINITE = "its weights are not finite"
"""What is wrong with a checkpoint that a diverged training has saved, as people read it."""

A = TypeVar("A")


class Adapter(ABC):
    """One trainer's translator, bound to one recipe: a rung in the trainer's own words, and its results back.

    The class says what it knows of any recipe; an instance is made for one and answers for that. No method depends on another
    having been called before it.
    """

    name: ClassVar[str]
    """As it stands in ``trainer.adapter``, and in the entry point."""
    wheels: ClassVar[Mapping[str, WheelSpec]]
    general: ClassVar[bool] = False
    """True: any command is taken for this trainer's; it is asked only where no other adapter knows one."""
    words: ClassVar[TrainerWords] = TrainerWords()
    """What the trainer's own messages mean."""
    recipe: Recipe

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    @classmethod
    def recognise(cls, words: Sequence[str]) -> Understood | None:
        """What a command line of a person's amounts to; None where it is none of this trainer's.

        Raises BadInput where it is this trainer's and trains nothing, or can't be followed.
        """
        return None

    @classmethod
    def pointed(cls, words: Sequence[str], value: str) -> Understood | None:
        """As ``recognise``, where the person says which value of the program's own source is its batch size: ``CONFIG['batch']``."""
        return cls.recognise(words)

    @abstractmethod
    def check(self) -> list[Fault]:
        """Everything wrong with the recipe's trainer arguments and data, found without running anything. Writes nothing."""

    @abstractmethod
    def accumulation(self) -> int:
        """Gradient accumulation steps of the asked configuration, where the recipe doesn't say."""

    def world_size(self) -> int:
        """Processes that train together, each with a micro-batch of its own, as far as the recipe tells; trials see how many there were."""
        return 1

    def lesser(self, wheel: str, asked: Value, *, floor: Value) -> Sequence[Value]:
        """What this trainer can fall back to from ``asked``, best first, down to ``floor`` (smaller models, say); empty where it
        knows nothing. Raises ValueError, in words, for a floor that means nothing to it.
        """
        return ()

    def notes(self) -> Sequence[str]:
        """What a person should know before anything is tried (weights that will be trained from scratch, say)."""
        return ()

    def unavailable(self) -> Mapping[str, str]:
        """Wheels that the installed version of the trainer doesn't turn truthfully, each with why; they stay as asked.

        Raises BadInput where no truthful trial is possible with it at all.
        """
        return {}

    def inputs(self, ladder: Ladder) -> Inputs:
        """All that its trials depend on, so that a fit can be kept."""
        return Inputs(unknown=f"the adapter {self.name} doesn't say what its trials hang on")

    def edit(self, rung: Rung) -> str:
        """The edit of the person's own files that comes to this rung, as a unified diff; nothing where their command says it all."""
        return ""

    def fetch(self, rung: Rung) -> Command | None:
        """What must be downloaded before this rung can be tried without a network; None where everything is here."""
        return None

    @abstractmethod
    def trial(self, rung: Rung, budget: Budget, *, folder: Path, cache: Path) -> TrialPlan:
        """The trial of one rung. ``folder`` is the trial's own, ``cache`` is shared by all trials of a launch."""

    @abstractmethod
    def full_run(self, rung: Rung, budget: Budget, *, folder: Path) -> Command:
        """The full run at ``rung``, as the trainer's own native command. ``folder`` is the launch's own."""

    @abstractmethod
    def held(self, command: Command, budget: Budget, *, folder: Path) -> Command:
        """The same full run, held to ``budget`` where the device itself wouldn't (a smaller card, a CPU's budget). See ``budgeted``."""

    def read_log(self, line: str, known: Progress, *, rung: Rung) -> LogLine:
        """What one more line of the full run's output says; ``known`` is how far the run had come before it.

        As it stands here, what most loops print (``log_line.read``).
        """
        return log_line.read(line, known)

    @abstractmethod
    def results(self, *, folder: Path) -> Mapping[str, Any]:
        """What the finished run achieved, read from what the trainer wrote: metrics, where the checkpoints lie."""

    def estimate_seconds(self, rung: Rung, report: TrialReport) -> float | None:
        """Estimated time of the full run, from the trial's step times; None where the trial can't say."""
        return None


def ability(adapter: object, kind: type[A]) -> A | None:
    """The adapter, where it has that ability: ``Proves``, ``OwnWords``, ``Resumes``, ``Traceable``."""
    return adapter if isinstance(adapter, kind) else None


# ----------------------------------------------------------------------------------------------------------------------
# Going on after a failure


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """Weights that a run has saved."""

    path: Path
    finite: bool


class Resumes:
    """What an adapter adds whose trainer can go on from a checkpoint; as it stands here, for one that can't.

    An adapter of somebody else's needs none of it: its runs are told how they failed, and begun anew only where the recipe lets them
    (``recover.allow_restart``).
    """

    def keeps(self) -> frozenset[str] | None:
        """Wheels that may be turned with a checkpoint still loadable, at the same effective batch and schedule; None: this trainer can't
        go on from one."""
        return None

    def checkpoints(self, *, folder: Path) -> Sequence[Checkpoint]:
        """The whole checkpoints that a run in ``folder`` has left, newest first; torn and corrupt ones are passed over."""
        return ()

    def spoiled(self, *, folder: Path) -> Mapping[Path, str]:
        """What lies there beside as a checkpoint and can't be gone on from (torn, corrupt, weights that aren't finite), newest first, each
        with why. Asked only where ``checkpoints`` gives nothing: a run that has saved something is not begun anew without a word."""
        return {}

    def weights(self, *, folder: Path, since: float) -> Weights | None:
        """The weights that the run saved last, after ``since`` (seconds since 1970), for one whose words may hide a loss that isn't finite;
        None where it has saved none, or nothing can be seen of them."""
        return None

    def saved(self, *, folder: Path) -> Sequence[Path]:
        """What lies there as a checkpoint, newest first, whole or not: a look at names, for words in which there is no time to load any."""
        return [one.path for one in self.checkpoints(folder=folder)]

    def resume(self, rung: Rung, checkpoint: Checkpoint, budget: Budget, *, folder: Path, attempt: int) -> Command:
        """The full run at ``rung``, going on from ``checkpoint`` into the same folder, with the same effective batch and schedule.

        ``attempt`` numbers what it writes for that.
        """
        raise NotImplementedError

    def workers(self) -> int | None:
        """Data loader workers as asked; None where that isn't known, or ``with_workers`` can't change it."""
        return None

    def with_workers(self, command: Command, workers: int) -> Command:
        """The same run with so many loader workers."""
        return command

    def put_aside(self, *, folder: Path, attempt: int) -> None:
        """Before a run begins anew: what attempt ``attempt`` wrote is moved out of its way, nothing removed."""
        aside(folder / "run", attempt)


def resuming(adapter: object) -> Resumes:
    """How this adapter's runs are gone on from."""
    return ability(adapter, Resumes) or Resumes()


def aside(place: Path, attempt: int) -> None:
    """Renames what an attempt wrote to ``NAME.attempt-N``."""
    if place.exists():
        place.rename(place.with_name(f"{place.name}.attempt-{attempt}"))


# ----------------------------------------------------------------------------------------------------------------------
# Proving that a rung trains the same


class Proves:
    """What an adapter adds whose full run can be made small and held against itself in another layout (``launcher.trial.proof``);
    as it stands here, for one whose full run takes any micro-batch. An adapter of somebody else's needs none."""

    def small(self, chosen: Rung, asked: Rung) -> Sequence[tuple[int, int]]:
        """(micro-batch, accumulation) of two twins, laid out as asked and row by row, of the same optimizer step.

        Empty where this trainer's steps can't be made smaller.
        """
        most = 4 if asked.micro_batch >= 4 else 2 if asked.micro_batch >= 2 else 0
        return [(most, asked.accumulation), (1, asked.accumulation * most)] if most else []

    def twin(self, rung: Rung, budget: Budget, *, folder: Path, short: bool = True, points: bool = False) -> Command:
        """The full run at ``rung``; ``short``: with the words for its length made small, where there are such; ``points``: those for how
        often it evaluates, too."""
        raise NotImplementedError

    def counted(self) -> str:
        """The word by which training is so many steps long where nothing but twins can tell of which kind, so that a rung whose steps
        aren't proven would be too short; empty where there is none."""
        return ""

    def course_of(self) -> Recipe | None:
        """The recipe with its length turned along with the micro-batch, after twins have shown that it counts micro-batches; None where
        no word for it is known. It is proven before it is used."""
        return None

    def points_of(self) -> Recipe | None:
        """The recipe with its evaluation and saving points turned along with the micro-batch; None where no word for them is known. Twins
        show whether they count micro-batches, and that this puts them right."""
        return None

    def length(self) -> Length | None:
        """How long the asked training is by its own words; None where they don't say it for certain."""
        return None

    def cured(self, finding: Finding) -> Recipe | None:
        """The recipe with what could make its update the asked one, after twins have shown how it differs; None where nothing is known.
        It is proven before it is used."""
        return None

    def from_outside(self) -> Recipe | None:
        """The recipe with its optimizer steps held back from outside, after twins have shown that the trainer's own accumulation makes
        a step of other samples; None where that isn't done. It is proven, and the rung tried again, before it is used."""
        return None

    def ends_of_passes(self) -> Sequence[Recipe]:
        """Recipes with what could make the last, smaller optimizer step of a pass over the data the asked one's, after twins have shown
        that it isn't; the one to be tried first comes first. Each is proven before it is used."""
        return ()

    def told(self, finding: Finding) -> str:
        """What makes its update another one, where that is how this trainer accumulates by itself: told by how much, and not refused.
        Empty: refused."""
        return ""

    def doubted(self, finding: Finding) -> str:
        """Why a finding doesn't show that this trainer's update is another one: the rung is launched then, and told as not comparable.
        Empty: it shows that."""
        return ""


# ----------------------------------------------------------------------------------------------------------------------
# Settings that are read, not told


class OwnWords:
    """What an adapter adds whose rung 0 is a person's own command as it stands: its settings were read of its text, which is a guess, and
    what the trial of rung 0 shows is what was asked. That trial is made first, and nothing is tried below it on a reading that it
    disproves."""

    def unsaid(self) -> frozenset[str]:
        """Settings whose value was read of no word of the command, nor of a file that it names: a default of the source, say."""
        return frozenset()

    def place(self, wheel: str) -> str:
        """How a setting is believed to be said, in words; empty where that isn't known."""
        return ""

    def believing(self, ran: Mapping[str, int]) -> Recipe | None:
        """The recipe with what rung 0 ran, by the name of the setting, in the place of what was read; None where it isn't known then how it
        is turned."""
        return None
