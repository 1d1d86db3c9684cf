"""What happens to a full run, as it is told (``history.events``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.history.events import Event
from launcher.machine.devices import Budget
from launcher.run.attempt import Attempt, Move, Outcome, moved


class AttemptStarted(Event, name="run_started", recorded=True):
    attempt: Attempt

    def line(self) -> Mapping[str, Any]:
        one = self.attempt
        told = {"rung_index": one.rung.index, "command": one.command, "checkpoint": one.checkpoint}
        return {**told, **({"attempt": one.number} if one.number > 1 else {})}


class Heartbeat(Event, name="heartbeat"):
    """Twice a minute. Sizes are bytes."""

    budget: Budget
    seconds: float
    """Since the attempt's start."""
    resident_bytes: int
    device_bytes: int
    used_bytes: int
    """Of the budget, as the run's trial counts it."""
    peak_bytes: int

    def line(self) -> Mapping[str, Any]:
        return {key: getattr(self, key) for key in ("resident_bytes", "device_bytes", "used_bytes", "peak_bytes")}


class Deviated(Event, name="run_otherwise"):
    """The run goes on otherwise than asked, or is dealt with otherwise."""

    what: str
    """As the end of a sentence that begins with "the run"."""
    evidence: str = ""
    """A line of its own by which that is known."""

    def line(self) -> Mapping[str, Any]:
        return {"what": self.what, "line": self.evidence}


class LossNotFinite(Event, recorded=True):
    """Written down at once: what ends the attempt later, autofit's own end included, makes no checkpoint after it a good one."""

    since: float | None
    """Seconds since 1970; None: it is finite again."""


class AttemptEnded(Event, name="run_ended", recorded=True):
    attempt: Attempt
    outcome: Outcome
    fit_wrong_by_bytes: int | None

    def line(self) -> Mapping[str, Any]:
        return {"attempt": self.attempt.number, "outcome": self.outcome}


class Recovering(Event, name="recovering", recorded=True):
    """What is done after an attempt has failed."""

    move: Move

    def line(self) -> Mapping[str, Any]:
        return moved(self.move)
