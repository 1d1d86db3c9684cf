"""What happens to a trial, as it is told (``history.events``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from launcher.history.events import Event
from launcher.ladder.rungs import Rung

if TYPE_CHECKING:
    from launcher.machine.devices import Budget
    from launcher.trial.trial import Trial


class TrialStarted(Event, name="trial_started"):
    rung: Rung
    number: int
    """Of the launch's trials, from 1."""
    most: int | None = None
    """Trials that this launch makes at most."""
    mean_seconds: float | None = None
    """What those before it took; None: there was none."""
    why: str = ""
    """It is just this rung."""

    def line(self) -> Mapping[str, Any]:
        return {"rung_index": self.rung.index, "rung": dict(self.rung.values), "accumulation": self.rung.accumulation}


class PhaseEntered(Event):
    """The trial under way is in this phase, so many seconds after its start."""

    phase: str
    seconds: float


class TrialEnded(Event, name="trial_ended", recorded=True):
    trial: Trial
    budget: Budget

    def line(self) -> Mapping[str, Any]:
        return self.trial.as_record()
