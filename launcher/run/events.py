"""What happens to a full run, as it is told (``history.events``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from launcher.history.events import Event
from launcher.machine.devices import Budget
from launcher.run.attempt import Attempt, Move, Outcome, moved


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptStarted(Event):
    name: ClassVar[str] = "run_started"
    recorded: ClassVar[bool] = True
    attempt: Attempt
    oom_kills: int | None
    """That the kernel has counted by now; None: it doesn't tell."""

    def line(self) -> Mapping[str, Any]:
        one = self.attempt
        told = {"rung_index": one.rung.index, "command": one.command, "checkpoint": one.checkpoint, "oom_kills": self.oom_kills}
        return {**told, **({"attempt": one.number} if one.number > 1 else {})}


@dataclass(frozen=True, kw_only=True, slots=True)
class Heartbeat(Event):
    """Twice a minute. Sizes are bytes."""

    name: ClassVar[str] = "heartbeat"
    budget: Budget
    seconds: float
    """Since the attempt's start."""
    resident_bytes: int
    device_bytes: int
    used_bytes: int
    """Of the budget, as the run's trial counts it."""
    peak_bytes: int
    log_bytes: int

    def line(self) -> Mapping[str, Any]:
        return {key: getattr(self, key) for key in ("resident_bytes", "device_bytes", "used_bytes", "peak_bytes", "log_bytes")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Deviated(Event):
    """The run goes on otherwise than asked, or is dealt with otherwise."""

    name: ClassVar[str] = "run_otherwise"
    what: str
    """As the end of a sentence that begins with "the run"."""
    evidence: str = ""
    """A line of its own by which that is known."""

    def line(self) -> Mapping[str, Any]:
        return {"what": self.what, "line": self.evidence}


@dataclass(frozen=True, kw_only=True, slots=True)
class LossNotFinite(Event):
    """Written down at once: what ends the attempt later, autofit's own end included, makes no checkpoint after it a good one."""

    recorded: ClassVar[bool] = True
    since: float | None
    """Seconds since 1970; None: it is finite again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptEnded(Event):
    name: ClassVar[str] = "run_ended"
    recorded: ClassVar[bool] = True
    attempt: Attempt
    outcome: Outcome
    fit_wrong_by_bytes: int | None

    def line(self) -> Mapping[str, Any]:
        return {"attempt": self.attempt.number, "outcome": self.outcome}


@dataclass(frozen=True, kw_only=True, slots=True)
class Recovering(Event):
    """What is done after an attempt has failed."""

    name: ClassVar[str] = "recovering"
    recorded: ClassVar[bool] = True
    move: Move

    def line(self) -> Mapping[str, Any]:
        return moved(self.move)
