"""One attempt at the full run as plain values: how it ended and what was done next; written to the record and read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from launcher.adapter.commands import Checkpoint
from launcher.history.records import AttemptRecord, CheckpointRecord
from launcher.ladder.rungs import Ladder, Rung
from launcher.machine import headroom
from launcher.shared.files import plain
from launcher.shared.memory_failures import MemoryFailure, Source
from launcher.shared.report import Phase


class Ended(StrEnum):
    """Causes of an attempt's end."""

    DONE = "done"
    OUT_OF_MEMORY = "out_of_memory"  # of the device: allocator, driver, libraries; on a CPU budget of the host
    SPILLED = "spilled"  # it went on out of the card, many times slower, and was ended for that
    HOST_MEMORY = "host_memory"  # beside a card: loader workers, shared or page-locked memory, the kernel's killer
    OPEN_FILES = "open_files"  # more than the process may open (ulimit -n)
    CARD_TAKEN = "card_taken"  # memory ran out that others had taken: says nothing of the rung
    KILLED = "killed"  # SIGKILL from nobody known
    DIVERGED = "diverged"  # the loss was not finite
    STALLED = "stalled"
    DISK_FULL = "disk_full"
    READ_ONLY = "read_only"  # what it wrote to can't be written any more: a mount that went read-only, a mode that was changed
    FILE_TOO_LARGE = "file_too_large"  # a file became larger than the shell (ulimit -f), or the file system, lets it
    CRASHED = "crashed"
    INTERRUPTED = "interrupted"  # a person, a scheduler, or autofit itself was killed


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How a full run ended."""

    returncode: int
    seconds: float
    peak_resident_bytes: int
    """Most resident memory of the run's process (host)."""
    peak_device_bytes: int
    """Most that the run used on its card, context included, sampled every second; 0 on a CPU."""
    peak_bytes: int
    """Most memory that the run used, measured as in its trial (``memory_usage.Usage``); 0 if unknown."""
    memory_failure: MemoryFailure | None
    """The last memory failure in a failed run's output, which ended it; None if there is none."""
    ended: Ended = Ended.DONE
    """Cause of its end."""
    phase: str = Phase.DONE.value
    """Phase in which it ended."""
    evidence: str = ""
    """Words by which that is known."""
    optimizer_steps: int | None = None
    """Optimizer steps that it made; None if that couldn't be seen from outside."""
    stopped_early: str = ""
    """The line in which it says so; empty if it didn't."""
    ended_at: str = ""
    """The last that it told of its epochs, where its length was more than one further ("epoch 3 of 40")."""
    lost_to_memory: tuple[str, ...] = ()
    """Memory failures that the run's logs mention and that did not end it: a figure was not drawn, say."""

    @property
    def done(self) -> bool:
        return self.returncode == 0 and self.ended is Ended.DONE


@dataclass(frozen=True, kw_only=True, slots=True)
class GoOn:
    """Launch again at this rung."""

    rung: Rung
    checkpoint: Checkpoint | None
    """From here; None: from the beginning."""
    why: str
    workers: int | None = None
    """At most so many loader workers; None: as asked."""
    unproven: bool = False
    """The rung asks more than the failed one on some wheel, or is of fewer cards, so it needs a trial first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wait:
    """Others hold the card: wait until it is free, then do ``then``."""

    then: GoOn


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """Nothing more can be done here."""

    why: str
    checkpoint: Checkpoint | None = None
    """Checkpoint to go on from."""


Move = GoOn | Wait | Stop


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One launch of the trainer, and how it ended."""

    number: int
    rung: Rung
    command: str
    began: float
    """Seconds since the epoch."""
    checkpoint: Checkpoint | None = None
    """The checkpoint it resumed from; None: it began from the beginning."""
    workers: int | None = None
    """Loader workers it was held to; None: as asked."""
    ended: Ended = Ended.INTERRUPTED
    """Also what a record says of an attempt whose launcher was killed."""
    phase: str = Phase.TRAIN.value
    """Phase in which it ended, by its output: train, validate or finish (the last evaluation)."""
    evidence: str = ""
    source: Source | None = None
    """Part of the machine that refused memory; None for other ends."""
    asked_bytes: int | None = None
    peak_bytes: int = 0
    seconds: float = 0.0
    left: Sequence[Checkpoint] = ()
    """The checkpoints it could be resumed from when it ended, newest first."""
    goes_on_from: str = ""
    """What ``resume`` would go on from, as far as that was seen: "checkpoint", "beginning" (nothing was saved yet), or "nothing" (it would
    be begun anew only with ``recover.allow_restart``); empty: its launcher was killed before it could look."""
    not_finite_since: float | None = None
    """When its loss stopped being finite (seconds since the epoch); None: its last report was finite."""
    then: Move | None = None
    """The next move."""

    def ended_as(self, outcome: Outcome) -> Attempt:
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

    @property
    def done(self) -> float:
        """How far the newest whole checkpoint had come, in its own unit; 0: there was none."""
        return max((one.done for one in self.left), default=0.0)

    def wrong_by(self, trial_peak_bytes: int) -> int | None:
        """By how many bytes the fit was wrong: what the run held and asked for, beyond what its trial had shown.

        None if unknown. 0 or less if others took the memory: the run needed no more than its trial, or so little more that two identical
        processes may differ by it (every fit leaves that much free).
        """
        if self.ended is not Ended.OUT_OF_MEMORY or not self.peak_bytes or not trial_peak_bytes:
            return None
        wrong = self.peak_bytes + (self.asked_bytes or 0) - trial_peak_bytes
        return wrong if wrong > headroom.LEAST_BYTES else min(wrong, 0)

    def record(self, trial_peak_bytes: int, **more: Any) -> AttemptRecord:
        """The attempt as ``record.json`` has it."""
        own = {name: plain(getattr(self, name)) for name in AttemptRecord.model_fields if name in _OWN}
        rung = {"rung_index": self.rung.index, "rung": dict(self.rung.values), "accumulation": self.rung.accumulation}
        wrong, then = self.wrong_by(trial_peak_bytes), {"next": moved(self.then)} if self.then is not None else {}
        return AttemptRecord(**own, **rung, effective_batch=self.rung.effective_batch, fit_wrong_by_bytes=wrong, **then, **more)


_OWN = {field.name for field in fields(Attempt)} - {"rung", "then"}
"""Fields that the record has under the same name."""


def moved(move: Move) -> dict[str, Any]:
    """A move as events and the record have it."""
    if isinstance(move, Stop):
        return {"move": "stop", "why": move.why, "checkpoint": plain(move.checkpoint)}
    go_on = move.then if isinstance(move, Wait) else move
    kind = "wait" if isinstance(move, Wait) else "go_on"
    told = {"why": go_on.why, "rung_index": go_on.rung.index, "checkpoint": plain(go_on.checkpoint), "workers": go_on.workers}
    return {"move": kind, **told}


def of_record(said: AttemptRecord, ladder: Ladder) -> Attempt:
    """An attempt read from a record. Raises ValueError or IndexError if it isn't one of this ladder's."""
    rung = ladder.rungs[said.rung_index]
    if dict(rung.values) != said.rung:
        raise ValueError(f"rung {rung.index} is {dict(rung.values)} now, and was {said.rung}")
    own: dict[str, Any] = {name: getattr(said, name) for name in _OWN - {"checkpoint", "ended", "left"}}
    checkpoint = _checkpoint(said.checkpoint) if said.checkpoint is not None else None
    own["left"] = tuple(map(_checkpoint, said.left))
    return Attempt(rung=rung, checkpoint=checkpoint, ended=Ended(said.ended), **own)


def _checkpoint(said: CheckpointRecord) -> Checkpoint:
    return Checkpoint(path=Path(said.path), done=said.done, unit=said.unit, finished=said.finished)
