"""One attempt at the full run as plain values, and their way into the record and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from launcher.adapter.commands import Checkpoint
from launcher.ladder.rungs import Ladder, Rung
from launcher.machine import headroom
from launcher.run.recovery import Attempt, Ended, Move, Stop, Wait
from launcher.run.supervise import Outcome
from launcher.shared.files import plain
from launcher.shared.report import Phase


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """One launch of the trainer."""

    number: int
    rung: Rung
    command: str
    began: float
    """Seconds since the epoch."""
    checkpoint: Checkpoint | None = None
    """What it went on from; None: from the beginning."""
    workers: int | None = None
    """Loader workers it was held to; None: as asked."""
    ended: Ended = Ended.INTERRUPTED
    """In a record whose launcher is gone, an attempt that it left behind reads so."""
    phase: str = Phase.TRAIN.value
    evidence: str = ""
    source: Any = None
    asked_bytes: int | None = None
    peak_bytes: int = 0
    seconds: float = 0.0
    left: Sequence[Checkpoint] = ()
    """The checkpoints that it could be gone on from when it had ended, newest first."""
    goes_on_from: str = ""
    """What ``resume`` would go on from, as far as that was seen: "checkpoint", "beginning" (nothing was saved yet), or "nothing" (it would
    be begun anew only with ``recover.allow_restart``); empty: its launcher was killed before it could look."""
    not_finite_since: float | None = None
    """When its loss was first reported not to be finite (seconds since the epoch); None: its last report was finite."""
    then: Move | None = None
    """What was done next."""

    def ended_as(self, outcome: Outcome) -> Made:
        failure = outcome.memory_failure
        return replace(
            self,
            ended=outcome.ended,
            phase=outcome.phase,
            evidence=outcome.evidence,
            source=failure.source if failure is not None else None,
            asked_bytes=failure.asked_bytes if failure is not None else None,
            peak_bytes=outcome.peak_bytes,
            seconds=outcome.seconds,
        )

    def as_attempt(self) -> Attempt:
        """What a decision needs of it."""
        done = max((one.done for one in self.left), default=0.0)
        return Attempt(rung=self.rung, ended=self.ended, phase=self.phase, source=self.source, done=done, workers=self.workers)

    def wrong_by(self, trial_peak_bytes: int) -> int | None:
        """By how many bytes the fit was wrong: what was held and asked for beyond what the trial had shown.

        None where that isn't known; not above 0 where memory was taken from the run, which needed no more than its trial, or so little more
        that two processes which do the same may differ by it: every fit leaves as much free.
        """
        if self.ended is not Ended.OUT_OF_MEMORY or not self.peak_bytes or not trial_peak_bytes:
            return None
        wrong = self.peak_bytes + (self.asked_bytes or 0) - trial_peak_bytes
        return wrong if wrong > headroom.LEAST_BYTES else min(wrong, 0)

    def as_record(self, trial_peak_bytes: int) -> dict[str, Any]:
        record = {name: plain(getattr(self, name)) for name in _PLAIN}
        rung = {"rung_index": self.rung.index, "rung": dict(self.rung.values), "accumulation": self.rung.accumulation}
        wrong = self.wrong_by(trial_peak_bytes)
        then = {"next": moved(self.then)} if self.then is not None else {}
        return {**record, **rung, "effective_batch": self.rung.effective_batch, "fit_wrong_by_bytes": wrong, **then}


_PLAIN = (
    "number", "command",
    "began", "checkpoint", "workers", "ended", "phase", "evidence", "source", "asked_bytes", "peak_bytes", "seconds", "left",
    "goes_on_from", "not_finite_since",
)  # fmt: skip

_LATER = ("goes_on_from", "not_finite_since")
"""Of those, what the first records of this format did not say."""


def moved(move: Move) -> dict[str, Any]:
    """A move as events and the record tell it."""
    if isinstance(move, Stop):
        return {"move": "stop", "why": move.why, "checkpoint": plain(move.checkpoint)}
    go_on = move.then if isinstance(move, Wait) else move
    kind = "wait" if isinstance(move, Wait) else "go_on"
    told = {"why": go_on.why, "rung_index": go_on.rung.index, "checkpoint": plain(go_on.checkpoint), "workers": go_on.workers}
    return {"move": kind, **told}


def read(said: Mapping[str, Any], ladder: Ladder) -> Made:
    """An attempt out of a record. Raises KeyError, TypeError, ValueError or IndexError where it isn't one of this ladder's."""
    rung = ladder.rungs[said["rung_index"]]
    if dict(rung.values) != said["rung"]:
        raise ValueError(f"rung {rung.index} is {dict(rung.values)} now, and was {said['rung']}")
    kept = {name: said[name] for name in _PLAIN if name not in ("checkpoint", "ended", "left", *_LATER)}
    kept |= {name: said[name] for name in _LATER if name in said}
    checkpoint = _checkpoint(said["checkpoint"]) if said["checkpoint"] is not None else None
    return Made(rung=rung, checkpoint=checkpoint, ended=Ended(said["ended"]), left=[_checkpoint(one) for one in said["left"]], **kept)


def _checkpoint(said: Mapping[str, Any]) -> Checkpoint:
    return Checkpoint(**{**said, "path": Path(said["path"])})
