"""The events of a full run (``history.events``)."""

from __future__ import annotations

from autofit_launcher.history.events import Event
from autofit_launcher.history.records import AttemptRecord, MoveRecord, RunRecord
from autofit_launcher.ladder.rungs import Rung


class AttemptStarted(Event):
    attempt: AttemptRecord


class Deviated(Event):
    """The run deviates from what was asked, or autofit acts on it."""

    what: str
    """The deviation as the end of a sentence that begins with "the run"."""
    evidence: str = ""
    """The line of its output that shows it."""


class AttemptEnded(Event):
    attempt: AttemptRecord
    outcome: RunRecord


class Recovering(Event):
    """The move after a failed attempt."""

    move: MoveRecord
    rung: Rung | None
    """The rung that is launched next; None where nothing is."""
