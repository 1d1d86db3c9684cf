"""What happens to a launch beside its trials and attempts, as it is told (``history.events``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from launcher.history.events import Event
from launcher.ladder.course import RunSteps
from launcher.ladder.rungs import Rung
from launcher.ladder.same_training import SameTraining
from launcher.trial.job import Job
from launcher.trial.rung_zero import Misread
from launcher.trial.trial import Trial

if TYPE_CHECKING:
    from launcher.engine.reuse import Standing
    from launcher.engine.state import Fit


@dataclass(frozen=True, kw_only=True, slots=True)
class Queued(Event):
    """Another launch has the device; its end is waited for."""

    holder: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared(Event):
    """The run folder is made."""

    name: ClassVar[str] = "prepared"
    job: Job

    def line(self) -> Mapping[str, Any]:
        job = self.job
        ladder = {"rungs": len(job.ladder.rungs), "effective_batch": job.ladder.effective_batch}
        return {"recipe": job.recipe.name, "device": job.budget, **ladder}


@dataclass(frozen=True, kw_only=True, slots=True)
class Resumed(Event):
    """A launch is taken up again, with so many attempts and trials behind it."""

    name: ClassVar[str] = "resumed"
    attempts: int
    trials: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned(Event):
    """The ladder on which a rung will be looked for."""

    job: Job


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptFits(Event):
    """What is known of fits that were kept: one is used, one was kept just now, or why none."""

    recorded: ClassVar[bool] = True
    standing: Standing


@dataclass(frozen=True, kw_only=True, slots=True)
class Foreseen(Event):
    """Which rung is looked at first, and why; nothing of it is proven."""

    name: ClassVar[str] = "foreseen"
    parts: Mapping[int, float | None]
    """Rung index -> what it is foreseen to need, as a part of the cap."""
    named: Rung | None
    """The first that is foreseen to fit."""
    by_trials: bool
    """By what earlier launches' trials needed."""
    why_not: Sequence[str]
    """Nothing can be foreseen."""
    seconds: float

    def line(self) -> Mapping[str, Any]:
        return {"parts": self.parts, "why_not": self.why_not, "seconds": self.seconds}


@dataclass(frozen=True, kw_only=True, slots=True)
class MisreadFound(Event):
    """The command ran another batch than was read of it."""

    name: ClassVar[str] = "misread"
    recorded: ClassVar[bool] = True
    misread: Misread
    words: str

    def line(self) -> Mapping[str, Any]:
        return self.misread.as_record()


@dataclass(frozen=True, kw_only=True, slots=True)
class Timed(Event):
    """Of the rungs that give up as much as the one that fits, which is taken for its speed."""

    name: ClassVar[str] = "timed"
    samples_per_second: Mapping[int, float]
    """By micro-batch."""
    fastest: Rung

    def line(self) -> Mapping[str, Any]:
        return {"samples_per_second": self.samples_per_second, "rung_index": self.fastest.index}


@dataclass(frozen=True, kw_only=True, slots=True)
class Proven(Event):
    """Whether a rung that fits is the asked training."""

    name: ClassVar[str] = "proven"
    recorded: ClassVar[bool] = True
    rung: Rung
    same: SameTraining
    refused: str
    twins: bool
    """They were run for it; False: nothing had to be shown."""

    def line(self) -> Mapping[str, Any] | None:
        return {"rung_index": self.rung.index, **self.same.as_record(), "refused": self.refused} if self.twins else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Fitted(Event):
    """The search is over, whether a rung fits or none does."""

    name: ClassVar[str] = "fitted"
    fit: Fit

    def line(self) -> Mapping[str, Any]:
        fit = self.fit
        kept = {"kept": fit.standing.certificate.id} if fit.standing and fit.standing.used and fit.standing.certificate else {}
        return {"status": fit.status, "rung_index": fit.chosen.rung.index if fit.chosen else None, **kept}


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialReported(Event):
    """The one trial that was asked for (``autofit trial``), with all its phases."""

    job: Job
    trial: Trial


@dataclass(frozen=True, kw_only=True, slots=True)
class CardTaken(Event):
    """Others hold the card."""

    name: ClassVar[str] = "card_taken"
    recorded: ClassVar[bool] = True
    holder: str
    waits_s: float | None
    """It is waited for so long at most; None: it isn't, or was in vain, and nothing is launched."""

    def line(self) -> Mapping[str, Any]:
        return {"holder": self.holder}


@dataclass(frozen=True, kw_only=True, slots=True)
class StepsCounted(Event):
    """A run's optimizer steps against those that were due."""

    name: ClassVar[str] = "steps"
    recorded: ClassVar[bool] = True
    steps: RunSteps

    def line(self) -> Mapping[str, Any]:
        return self.steps.as_record()


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished(Event):
    """The launch is over, whatever ended it."""

    name: ClassVar[str] = "finished"
    recorded: ClassVar[bool] = True
    fit: Fit

    def line(self) -> Mapping[str, Any]:
        return {"status": self.fit.status, "memory": self.fit.memory, "results": self.fit.results}
