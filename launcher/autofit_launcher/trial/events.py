"""The events of a trial (``history.events``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofit_launcher.history.events import Event
from autofit_launcher.ladder.rungs import Rung

if TYPE_CHECKING:
    from autofit_launcher.machine.devices import Budget
    from autofit_launcher.trial.trial import Trial


class TrialStarted(Event):
    rung: Rung
    number: int
    """Number of the trial in its launch, from 1."""
    most: int | None = None
    """The most trials that this launch can make."""
    why: str = ""
    """The reason why this rung is tried; empty if it is simply the next."""


class PhaseEntered(Event):
    """The current trial has entered a phase, ``seconds`` after its start."""

    phase: str
    seconds: float


class TrialEnded(Event):
    trial: Trial
    budget: Budget
