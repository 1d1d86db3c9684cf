"""The events of a full run (``history.events``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.history.events import Event
from launcher.history.records import AttemptRecord, MoveRecord, RunRecord
from launcher.ladder.rungs import Rung


class AttemptStarted(Event, name="run_started"):
    attempt: AttemptRecord

    def line(self) -> Mapping[str, Any]:
        one = self.attempt
        told = {"rung_index": one.rung_index, "command": one.command, "checkpoint": one.checkpoint}
        return {**told, **({"attempt": one.number} if one.number > 1 else {})}


class Deviated(Event, name="run_otherwise"):
    """The run deviates from what was asked, or autofit acts on it."""

    what: str
    """The deviation as the end of a sentence that begins with "the run"."""
    evidence: str = ""
    """The line of its output that shows it."""

    def line(self) -> Mapping[str, Any]:
        return {"what": self.what, "line": self.evidence}


class LossNotFinite(Event):
    """Recorded at once, so that no checkpoint written later passes for a good one, even if autofit itself is killed."""

    since: float | None
    """Since when, in seconds since 1970; None: the loss is finite again."""


class AttemptEnded(Event, name="run_ended"):
    attempt: AttemptRecord
    outcome: RunRecord

    def line(self) -> Mapping[str, Any]:
        return {"attempt": self.attempt.number, "outcome": self.outcome}


class Recovering(Event, name="recovering"):
    """The move after a failed attempt."""

    move: MoveRecord
    rung: Rung | None
    """The rung that is launched next; None where nothing is."""

    def line(self) -> Mapping[str, Any]:
        return self.move.written()
