"""What happens to a launch beside its trials and attempts, as it is told (``history.events``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from launcher.history.events import Event
from launcher.ladder.course import RunSteps
from launcher.ladder.rungs import Rung
from launcher.ladder.same_training import SameTraining
from launcher.ladder.search import dominated_by
from launcher.trial.job import Job
from launcher.trial.rung_zero import Misread
from launcher.trial.trial import Trial, as_tried

if TYPE_CHECKING:
    from launcher.engine.reuse import Reuse
    from launcher.engine.state import Fit


class Queued(Event):
    """Another launch has the device; its end is waited for."""

    holder: str


class Prepared(Event, name="prepared"):
    """The run folder is made."""

    job: Job

    def line(self) -> Mapping[str, Any]:
        job = self.job
        ladder = {"rungs": len(job.ladder.rungs), "effective_batch": job.ladder.effective_batch}
        return {"recipe": job.recipe.name, "device": job.budget, **ladder}


class Resumed(Event, name="resumed"):
    """A launch is taken up again, with so many attempts and trials behind it."""

    attempts: int
    trials: int
    edited: tuple[str, ...] = ()
    """What the person has changed of their training since the launch, in sentences."""


class Planned(Event):
    """The ladder on which a rung will be looked for."""

    job: Job
    trial_seconds: float | None = None
    """How long a trial of it took in earlier launches."""


class KeptFits(Event):
    """What is known of fits that were kept: one is used, one was kept just now, or why none."""

    reuse: Reuse


class Unturned(Event, name="unturned"):
    """The trial of rung 0 showed that a command's micro-batch can't be turned as was planned."""

    misread: Misread | None
    """The command ran another batch than was read of it; None where it draws its batches."""
    words: str
    believed: bool
    """The ladder is made anew of what ran."""

    def line(self) -> Mapping[str, Any]:
        return {"why": self.words, **(self.misread.as_record() if self.misread is not None else {})}


class Timed(Event, name="timed"):
    """Of the rungs that give up as much as the one that fits, which is taken for its speed."""

    samples_per_second: Mapping[int, float]
    """By micro-batch."""
    fastest: Rung

    def line(self) -> Mapping[str, Any]:
        return {"samples_per_second": self.samples_per_second, "rung_index": self.fastest.index}


class Proven(Event, name="proven"):
    """Whether a rung that fits is the asked training."""

    rung: Rung
    same: SameTraining
    refused: str
    twins: bool
    """They were run for it; False: nothing had to be shown."""

    def line(self) -> Mapping[str, Any] | None:
        return {"rung_index": self.rung.index, **self.same.as_record(), "refused": self.refused} if self.twins else None


class Fitted(Event, name="fitted"):
    """The search is over, whether a rung fits or none does."""

    fit: Fit

    def line(self) -> Mapping[str, Any]:
        fit = self.fit
        kept = {"kept": fit.kept.id} if fit.kept.used else {}
        return {"status": fit.status, "rung_index": fit.chosen.rung.index if fit.chosen else None, **kept, "ladder": list(_ladder(fit))}


MOST_RUNGS = 60
"""Of a ladder that are written down: the best, which are tried first."""


def _ladder(fit: Fit) -> Iterator[Mapping[str, Any]]:
    """The rungs, best first, and which failed trial rules each out, where one does."""
    ladder, history = fit.job.ladder, [as_tried(one, fit.job.budget.cap_bytes) for one in fit.trials]
    tried = {one.rung.index for one in fit.trials}
    for rung in ladder.rungs[:MOST_RUNGS]:
        by = None if rung.index in tried else dominated_by(ladder, rung, history)
        yield {**rung.told, **({"ruled_out_by": by.rung.index} if by is not None else {})}


class TrialReported(Event):
    """The one trial that was asked for (``autofit trial``), with all its phases."""

    job: Job
    trial: Trial


class CardTaken(Event, name="card_taken"):
    """Others hold the card."""

    holder: str
    waits_s: float | None
    """It is waited for so long at most; None: it isn't, or was in vain, and nothing is launched."""


class StepsCounted(Event, name="steps"):
    """A run's optimizer steps against those that were due."""

    steps: RunSteps

    def line(self) -> Mapping[str, Any]:
        return self.steps.as_record()


class Finished(Event, name="finished"):
    """The launch is over, whatever ended it."""

    fit: Fit

    def line(self) -> Mapping[str, Any]:
        return {"status": self.fit.status, "memory": self.fit.memory, "results": self.fit.results}
