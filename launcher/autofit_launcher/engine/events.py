"""Events of a launch beside its trials and attempts, as they are told (``history.events``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofit_launcher.history.events import Event
from autofit_launcher.ladder.rungs import Rung
from autofit_launcher.ladder.same_training import SameTraining
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.rung_zero import Misread
from autofit_launcher.trial.trial import Trial

if TYPE_CHECKING:
    from autofit_launcher.engine.reuse import Reuse
    from autofit_launcher.engine.state import Fit


class Queued(Event):
    """Another launch has the device; its end is waited for."""

    holder: str


class Resumed(Event):
    """A launch is taken up again, with so many attempts and trials behind it."""

    attempts: int
    trials: int
    edited: tuple[str, ...] = ()
    """Sentences that say what the person has changed of their training since the launch."""


class Planned(Event):
    """The ladder on which a rung will be looked for."""

    job: Job


class KeptFits(Event):
    """The launch knows something of kept fits: that it uses one, has just kept one, or why it does neither."""

    reuse: Reuse


class Unturned(Event):
    """The trial of rung 0 showed that a command's micro-batch can't be turned as was planned."""

    misread: Misread | None
    """The command ran another batch than was read of it; None where it draws its batches."""
    words: str
    believed: bool
    """The ladder is made anew of what ran."""


class Proven(Event):
    """A rung that fits was compared with the asked training."""

    rung: Rung
    same: SameTraining
    refused: str
    twins: bool
    """True: twins were run for it. False: nothing had to be shown."""


class Fitted(Event):
    """The search is over, whether a rung fits or none does."""

    fit: Fit


class TrialReported(Event):
    """The one trial that was asked for (``autofit trial``), with all its phases."""

    job: Job
    trial: Trial


class CardTaken(Event):
    """Others hold the card."""

    holder: str
    waits_s: float | None
    """Seconds to wait for the card at most; None: nobody waits, or it was in vain, and nothing is launched."""


class Finished(Event):
    """The launch is over, whatever ended it."""

    fit: Fit
