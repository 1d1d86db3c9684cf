"""The interface between autofit and a trainer. An adapter translates; it never runs, searches, judges or supervises.

To add a trainer, write a class that inherits ``Adapter``, in a folder or an installed package, and name it in the entry-point group
``autofit.adapters``. ``launcher.trainers.suite`` tests what it must do.

Methods that an adapter may leave out have a body here. Optional abilities are classes of their own, inherited beside ``Adapter``:
``Resumes``, ``Proves``, ``OwnWords`` and ``Traceable``. An adapter has an ability if it is an instance of its class (``ability``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from launcher.adapter import log_line
from launcher.adapter.commands import Checkpoint, Command, TrialPlan
from launcher.adapter.dialect import Dialect
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
from launcher.machine import ranks
from launcher.machine.devices import Budget
from launcher.shared.report import TrialReport

NOT_FINITE = "its weights are not finite"
"""Why a checkpoint of a diverged training can't be used, for people."""

A = TypeVar("A")


class Adapter(ABC):
    """Translates between autofit and one trainer: rungs into the trainer's own terms, its output and results back.

    Class attributes hold for any recipe; an instance is bound to one recipe. No method depends on another having been called.
    """

    name: ClassVar[str]
    """Its name in ``trainer.adapter`` and in the entry point."""
    wheels: ClassVar[Mapping[str, WheelSpec]]
    general: ClassVar[bool] = False
    """True: the adapter takes any command, so it is asked only if no other adapter recognises it."""
    words: ClassVar[TrainerWords] = TrainerWords()
    """What the trainer's messages mean."""
    dialects: ClassVar[tuple[Dialect, ...]] = ()
    """How people say to the trainer what a lower rung changes; several for an adapter of many trainers."""
    ranks: ClassVar[bool] = False
    """True: its trials and its run can be started once on each of several devices (torchrun), and follow from that alone."""
    starts_ranks: ClassVar[bool] = False
    """True: its command starts its processes itself, on as many cards as it is given."""
    saves: ClassVar[tuple[str, ...]] = ()
    """Modules of ``inside/``, below the package, whose ``install`` keeps the checkpoint that a full run writes over until the new one is
    whole, where the trainer doesn't write it by ``torch.save``."""
    recipe: Recipe

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    @classmethod
    def recognise(cls, words: Sequence[str]) -> Understood | None:
        """What a user's command line asks for; None if it isn't one of this trainer's.

        Raises BadInput if it is this trainer's but doesn't train, or can't be followed.
        """
        return None

    @classmethod
    def pointed(cls, words: Sequence[str], value: str) -> Understood | None:
        """As ``recognise``, where the person says which value of the program's own source is its batch size: ``CONFIG['batch']``."""
        return cls.recognise(words)

    @abstractmethod
    def check(self) -> list[Fault]:
        """All faults of the recipe's trainer arguments and data. Runs nothing and writes nothing."""

    @abstractmethod
    def accumulation(self) -> int:
        """Gradient accumulation steps of the asked configuration, if the recipe doesn't say."""

    def world_size(self) -> int:
        """Processes that train together, each with its own micro-batch, by the recipe. Trials see how many there really are."""
        return ranks.world_size(self.recipe.device.cards, self.recipe.device.kind)

    def lesser(self, wheel: str, asked: Value, *, floor: Value) -> Sequence[Value]:
        """Values below ``asked`` that this trainer knows for a wheel (smaller models, say), best first, down to ``floor``; may be empty.

        Raises ValueError, with a sentence for people, if ``floor`` means nothing for that wheel.
        """
        return ()

    def unit(self) -> str:
        """What its batches are counted in, in the plural."""
        return "samples"

    def notes(self) -> Sequence[str]:
        """Sentences that a user should read before the first trial (a model starts without pretrained weights, say)."""
        return ()

    def inputs(self, ladder: Ladder) -> Inputs:
        """Everything that its trials depend on, so that a fit can be kept."""
        return Inputs(unknown=f"the adapter {self.name} doesn't say what its trials hang on")

    def stand_in(self, place: Path) -> Recipe | None:
        """The recipe with small data at the assumed worst, which its ``prepare`` makes in ``place``: for a plan without data. None: it has
        none. This implementation is the recipe's own ``stand_in``."""
        words = tuple(word.replace("{data}", str(place)) for word in self.recipe.stand_in or ())
        return self.recipe.model_copy(update={"data": str(place), "prepare": words}) if words else None

    def fetch(self, rung: Rung) -> Command | None:
        """The command that downloads what this rung needs, since trials use no network; None if everything is here."""
        return None

    @abstractmethod
    def trial(self, rung: Rung, budget: Budget, *, folder: Path, cache: Path) -> TrialPlan:
        """How one rung is tried. ``folder``: the trial's own. ``cache``: shared by all trials of a launch."""

    @abstractmethod
    def full_run(self, rung: Rung, budget: Budget, *, folder: Path) -> Command:
        """The full run at ``rung``, as the trainer's own native command. ``folder``: the run folder."""

    @abstractmethod
    def held(self, command: Command, budget: Budget, *, folder: Path) -> Command:
        """The full run's command, held to ``budget`` where the device itself doesn't limit it (an emulated smaller card, a CPU). See
        ``budgeted``.
        """

    def read_log(self, line: str, known: Progress, *, rung: Rung) -> LogLine:
        """Reads one more line of the full run's output. ``known``: how far the run had come before it.

        This implementation reads what most training loops print (``log_line.read``).
        """
        return log_line.read(line, known)

    @abstractmethod
    def results(self, *, folder: Path) -> Mapping[str, Any]:
        """Results of a finished run, read from the trainer's files: metrics, paths of checkpoints."""

    def estimate_seconds(self, rung: Rung, report: TrialReport) -> float | None:
        """Estimated seconds of the full run, from the trial's step times; None if unknown."""
        return None


def ability(adapter: object, kind: type[A]) -> A | None:
    """The adapter if it has that ability (``Proves``, ``OwnWords``, ``Resumes``, ``Traceable``), else None."""
    return adapter if isinstance(adapter, kind) else None


# ----------------------------------------------------------------------------------------------------------------------
# Going on after a failure


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """Weights that a run has saved."""

    path: Path
    finite: bool


class Resumes:
    """For adapters whose trainer can resume from a checkpoint. The bodies here are those of a trainer that can't.

    An adapter without this ability is fine: its failed runs are reported, and start from the beginning only with ``recover.allow_restart``.
    """

    def keeps(self) -> frozenset[str] | None:
        """Wheels that may change with a checkpoint still loadable, at the same effective batch and schedule; None: it can't resume."""
        return None

    def checkpoints(self, *, folder: Path) -> Sequence[Checkpoint]:
        """Intact checkpoints that a run left in ``folder``, newest first; damaged ones are left out."""
        return ()

    def spoiled(self, *, folder: Path) -> Mapping[Path, str]:
        """Checkpoints in ``folder`` that can't be used (torn, corrupt, weights not finite), newest first, each with why.

        Asked only if ``checkpoints`` is empty: a run that has saved something must not start from the beginning unasked.
        """
        return {}

    def weights(self, *, folder: Path, since: float) -> Weights | None:
        """The weights that the run saved last, after ``since`` (seconds since 1970); its output may hide a loss that isn't finite.

        None if it saved none, or they can't be looked at.
        """
        return None

    def saved(self, *, folder: Path) -> Sequence[Path]:
        """Everything in ``folder`` that looks like a checkpoint, newest first, intact or not. Only names are looked at, so it is quick."""
        return [one.path for one in self.checkpoints(folder=folder)]

    def kept_in(self, folder: Path) -> Path:
        """Where the run of this run folder saves."""
        return folder

    def kept_bytes(self, rung: Rung, report: TrialReport, *, scratch: Path) -> int | None:
        """The most that the run has saved at once, by the sizes of what a trial has saved in ``scratch``; None where nobody knows."""
        return None

    def resume(self, rung: Rung, checkpoint: Checkpoint, budget: Budget, *, folder: Path, attempt: int) -> Command:
        """The full run at ``rung``, resumed from ``checkpoint`` in the same folder, with the same effective batch and schedule.

        ``attempt``: number of the attempt, for the names of files it writes.
        """
        raise NotImplementedError

    def edited(self, *, since: float) -> Sequence[str]:
        """What the person has changed of their own training since then (seconds since 1970), in sentences for them."""
        return ()

    def asks_otherwise(self, *, since: float, read: Mapping[str, Value]) -> Sequence[Fault]:
        """What the person has changed since then so that another training is asked for than the one that was launched.

        ``read``: what the launch read of settings that then ran otherwise.
        """
        return ()

    def workers(self) -> int | None:
        """Data loader workers as asked; None if unknown, or if ``with_workers`` can't change them."""
        return None

    def with_workers(self, command: Command, workers: int) -> Command:
        """The same run with ``workers`` data loader workers."""
        return command

    def put_aside(self, *, folder: Path, attempt: int) -> None:
        """Moves what attempt ``attempt`` wrote out of the way, before a run starts from the beginning. Removes nothing."""
        aside(folder / "run", attempt)


def resuming(adapter: object) -> Resumes:
    """The adapter's ability to resume; one that can't resume if it has none."""
    return ability(adapter, Resumes) or Resumes()


def aside(place: Path, attempt: int) -> None:
    """Renames a file or folder that an attempt wrote to ``NAME.attempt-N``."""
    if place.exists():
        place.rename(place.with_name(f"{place.name}.attempt-{attempt}"))


# ----------------------------------------------------------------------------------------------------------------------
# Proving that a rung trains the same


class Proves:
    """For adapters whose full run can be made small and compared in several layouts, micro-batch x accumulation (``launcher.trial.proof``).

    The bodies here suit a trainer whose full run takes any micro-batch. An adapter may do without this ability.
    """

    def small(self, chosen: Rung, asked: Rung) -> Sequence[tuple[int, int]]:
        """(micro-batch, accumulation) of two twins of one optimizer step: laid out as asked, and row by row.

        Empty if this trainer's steps can't be made smaller.
        """
        most = 4 if asked.micro_batch >= 4 else 2 if asked.micro_batch >= 2 else 0
        return [(most, asked.accumulation), (1, asked.accumulation * most)] if most else []

    def twin(self, rung: Rung, budget: Budget, *, folder: Path, short: bool = True, points: bool = False) -> Command:
        """The full run at ``rung`` as a twin. ``short``: with a short length, if an argument gives it. ``points``: evaluates often, too."""
        raise NotImplementedError

    def counted(self) -> str:
        """The argument with the training's length in steps, if only twins can tell whether it counts micro-batches or optimizer steps.

        A rung whose steps aren't proven might then train too short. Empty: there is no such argument.
        """
        return ""

    def course_of(self) -> Recipe | None:
        """The recipe with its length raised along with the accumulation, after twins have shown that it counts micro-batches.

        None if no argument for it is known. It is proven before it is used.
        """
        return None

    def points_of(self) -> Recipe | None:
        """The recipe with its intervals of evaluation and saving raised along with the accumulation; None if no argument for them is known.

        Twins show whether they count micro-batches, and that this corrects them.
        """
        return None

    def length(self) -> Length | None:
        """The length of the asked training by its own arguments; None if they don't say it for certain."""
        return None

    def exact(self) -> frozenset[str]:
        """Wheels that are turned from outside, of which twins show that the gradients stay the asked ones."""
        return frozenset()

    def cured(self, finding: Finding) -> Recipe | None:
        """The recipe with a correction of its update, after twins have shown how it differs; None if no correction is known.

        It is proven before it is used.
        """
        return None

    def from_outside(self) -> Recipe | None:
        """The recipe accumulated from outside, after twins have shown that the trainer's own accumulation takes other samples for a step.

        None if that isn't possible. It is proven, and the rung tried again, before it is used.
        """
        return None

    def ends_of_passes(self) -> Sequence[Recipe]:
        """Recipes that may correct the last, smaller optimizer step of a pass over the data, after twins have shown that it differs.

        Best first. Each is proven before it is used.
        """
        return ()

    def told(self, finding: Finding) -> str:
        """Why the update differs, if that is how this trainer accumulates by itself: the difference is reported and not refused.

        Empty: the rung is refused.
        """
        return ""

    def doubted(self, finding: Finding) -> str:
        """Why a finding doesn't prove that the update differs: the rung is launched then, and reported as not comparable.

        Empty: it does prove it.
        """
        return ""


# ----------------------------------------------------------------------------------------------------------------------
# Settings that are read, not told


class OwnWords:
    """For adapters whose rung 0 is a user's own command as it stands.

    Its settings were read from text, which is a guess; what the trial of rung 0 shows is what was asked. So rung 0 is tried first, and
    nothing below it is tried if its trial disproves the reading.
    """

    def unsaid(self) -> frozenset[str]:
        """Settings whose value stands neither in the command nor in a file that it names: a default in the source, say."""
        return frozenset()

    def place(self, wheel: str) -> str:
        """Where the setting was read, in words; empty if unknown."""
        return ""

    def believing(self, ran: Mapping[str, int]) -> Recipe | None:
        """The recipe with what rung 0 ran (setting -> value) in place of what was read; None if it isn't known how to change it then."""
        return None
