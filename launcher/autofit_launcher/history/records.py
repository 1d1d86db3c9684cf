"""The shape of ``record.json``, which is also what ``--json`` prints; docs/record.schema.json is made of it.

Every key has a default, so that an older autofit's record can be read. Keys of a later autofit are kept as they are. To add a key, add a
field here and its value where the record is made (``engine.launch``, ``trial.trial``, ``full_run.run``), then run ``make schema``.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ValidationError, field_validator

from autofit_launcher.common import files
from autofit_launcher.common.sizes import format_number
from autofit_launcher.ladder.same_training import RunSteps, SameTraining

FORMAT = 2
"""Format of the record. Records of format 1 (without the key) have no attempts and can't be resumed."""


class Status(StrEnum):
    """The state of a launch, or its end. ``record.json`` says what really happened."""

    TRYING = "trying"  # trials are being made; found in a record whose launcher is gone: it was killed then
    RUNNING = "running"  # the full run is on its way; likewise
    DONE = "done"
    NO_RUNG_FITS = "no_rung_fits"
    CRASHED = "crashed"  # a trial ended so, which no lower rung cures; likewise the next three
    STALLED = "stalled"
    VACUOUS = "vacuous"
    DIVERGED = "diverged"  # or the full run did: its loss was not finite, and so it is not done, whether it came to its end or not
    CARD_TAKEN = "card_taken"  # others came to the card, and it was not waited for, or in vain
    FAILED = "failed"  # the full run
    OTHER_TRAINING = "other_training"  # the full run came to its end, and made other optimizer steps than asked: it is not done
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"  # autofit itself could not go on


class RecordPart(BaseModel, extra="allow", frozen=True, ser_json_inf_nan="constants", use_attribute_docstrings=True):
    """A part of a file of JSON, whose keys are its fields."""

    @field_validator("*")
    @classmethod
    def _a_number_of_ours(cls, told: Any) -> Any:
        """Raises ValueError for a number that no autofit has written: NaN, one that no clock or memory comes to."""
        if isinstance(told, (int, float)) and not abs(told) <= 2**63:
            raise ValueError("no clock or memory comes to that")
        return told

    @classmethod
    def whole(cls, **known: Any) -> Self:
        """A part whose every key is written, what isn't known as its default."""
        return cls(**{name: field.default for name, field in cls.model_fields.items()} | known)

    def written(self) -> dict[str, Any]:
        """The part as a file has it: only the keys that were set."""
        return self.model_dump(mode="json", exclude_unset=True)


class CheckpointRecord(RecordPart):
    """An intact checkpoint of a run: it was loaded or its checksums match, and no weight that was looked at is not finite."""

    path: Path
    done: float = 0.0
    """Progress of the training at this checkpoint, in ``unit``."""
    unit: str = ""
    """"epochs" or "steps"; for a script, whose checkpoints can't be read, "seconds" (the time when it was written)."""
    finished: bool = False
    """The training itself is done; only the trainer's own end is left (the last evaluation)."""

    def __str__(self) -> str:
        return f"{self.path} ({format_number(self.done)} {self.unit})" if self.unit != "seconds" else str(self.path)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunCertificate(SameTraining):
    """The certificate of the launch's rung."""

    refused: str = ""
    """The reason why rungs with more accumulation than asked were left out."""


class RungRecord(RecordPart):
    """One configuration on the ladder."""

    rung_index: int = 0
    rung: dict[str, Any] = {}
    """The rung's wheels and their values."""
    accumulation: int = 1
    effective_batch: int = 0


class RoomRecord(RecordPart):
    """One of the machine's memories beside the card. Bytes."""

    name: str = ""
    needed: int = 0
    """Bytes that the run needs: what the trial took at most, and what its loaders hold ahead once their queues are full."""
    there: int | None = None
    """Bytes that there were for the run, those it holds itself included; null: no limit, or nobody tells it."""
    headroom: float = 0.0
    """Fraction of it that must stay free."""


class TrialRecord(RungRecord):
    """One rung, really tried."""

    effective_batch_seen: bool = False
    """True: the trial saw how many samples an optimizer step has."""
    verdict: str = ""
    phase: str = ""
    peak_bytes: int = 0
    seconds: float = 0.0
    why: str = ""
    source: str | None = None
    """The part of the machine that refused memory; null for other ends."""
    asked_bytes: int | None = None
    """Bytes that the failing allocation asked for."""
    folder: str = ""
    otherwise: list[str] = []
    """Settings that ran otherwise than told."""
    kept: str = ""
    """Time at which it was made, if an earlier launch made it; else empty."""
    rooms: list[RoomRecord] = []
    """Needs of the machine's memories beside the card."""
    same_training: SameTraining | None = None


class LadderRecord(RungRecord):
    """One rung of the ladder, as the search has left it."""

    ruled_out_by: int | None = None
    """The rung whose failed trial rules it out; null for one that was tried, or that nothing rules out."""


class CouldRecord(RecordPart):
    """A change that would make another training and might fit, where no rung does: how it is said, and the rung that is estimated to."""

    flag: str = ""
    key: str = ""
    rung: dict[str, Any] | None = None


class MoveRecord(RecordPart):
    """The move after an attempt."""

    move: str = ""
    """go_on, wait (others hold the card: go on once it is free) or stop (nothing more can be done)."""
    why: str = ""
    rung_index: int | None = None
    """The rung that is launched next; null where nothing is."""
    checkpoint: CheckpointRecord | None = None
    """The checkpoint to go on from; null: from the beginning."""
    workers: int | None = None
    """Highest number of loader workers; null: as asked."""
    unproven: bool = False
    """The rung asks more than the failed one on some wheel, so it needs a trial first."""

    @property
    def stops(self) -> bool:
        return self.move == "stop"


class AttemptRecord(RungRecord):
    """One launch of the full run's trainer, and how it ended."""

    number: int = 1
    command: str = ""
    began: float = 0.0
    """Seconds since 1970."""
    checkpoint: CheckpointRecord | None = None
    """The checkpoint it resumed from; null: it began from the beginning."""
    workers: int | None = None
    """Loader workers it was held to; null: as asked."""
    ended: str = "interrupted"
    """The cause of its end (``full_run.cause.Ended``); also what a record says of an attempt whose launcher was killed."""
    phase: str = ""
    """Phase in which it ended, by its output: train, validate or finish (the last evaluation)."""
    evidence: str = ""
    source: str | None = None
    """Part of the machine that refused memory; null for other ends."""
    asked_bytes: int | None = None
    peak_bytes: int = 0
    seconds: float = 0.0
    left: list[CheckpointRecord] = []
    """Checkpoints it could be resumed from when it ended, newest first."""
    remarks: list[str] = []
    """Deviations from what was asked, and what autofit did about them, each as the end of a sentence that begins with "the run"."""
    next: MoveRecord | None = None
    same_training: SameTraining | None = None

    @property
    def done(self) -> float:
        """Progress at the whole checkpoint that has come furthest, in its own unit; 0: there was none."""
        return max((one.done for one in self.left), default=0.0)


class DeviceRecord(RecordPart):
    """The device a launch gets, and how much of its memory. Sizes are bytes."""

    kind: str = ""
    index: int = 0
    uuid: str = ""
    name: str = ""
    total_bytes: int = 0
    free_bytes: int = 0
    budget_bytes: int = 0
    cap_bytes: int = 0
    """Most bytes that a trial may use."""
    ceiling_bytes: int = 0
    headroom: float = 0.0
    emulated: bool = False
    notes: list[str] = []
    may_spill: bool = False
    driver: str = ""
    ranks: list[DeviceRecord] = []
    """Devices of a training's ranks, where it runs once on each of several. The other keys are then those of the smallest."""


class KeptRecord(RecordPart):
    """The kept fit that was used, or that this launch has kept."""

    digest: str | None = None
    used: bool = False
    made: str | None = None
    made_in: str | None = None
    why: str = ""


class MisreadRecord(RecordPart):
    """A setting as it was read from a command, beside what its trial ran."""

    read: dict[str, int] = {}
    ran: dict[str, int] = {}
    believed: bool = False


class RunRecord(RecordPart):
    """The end of the full run's last attempt."""

    returncode: int = 0
    seconds: float = 0.0
    peak_bytes: int = 0
    """Most memory that the run used, measured as in its trial (of a card with its context); 0 if unknown."""
    memory_failure: dict[str, Any] | None = None
    """The last memory failure in a failed run's output, which ended it."""
    ended: str = ""
    phase: str = ""
    evidence: str = ""
    """Words by which its end is known."""
    optimizer_steps: int | None = None
    """Optimizer steps that it made; null if that couldn't be seen from outside."""
    stopped_early: str = ""
    """The line in which it says that it stopped early; empty if it didn't."""
    ended_at: str = ""
    """The last that it told of its epochs, where its length was more than one further."""
    lost_to_memory: list[str] = []
    """Memory failures that the run's logs mention and that did not end it: a figure was not drawn, say."""

    @property
    def done(self) -> bool:
        return self.returncode == 0 and self.ended == "done"


class MemoryRecord(RecordPart):
    """The full run's peak beside its trial's, in the trial's own measure. Bytes."""

    trial_peak_bytes: int = 0
    run_peak_bytes: int = 0
    """Peak of the run; 0 where it could not be seen."""
    cap_bytes: int = 0
    budget_bytes: int = 0

    @property
    def ratio(self) -> float | None:
        """Run peak over trial peak; None where one of them is unknown."""
        return self.run_peak_bytes / self.trial_peak_bytes if self.run_peak_bytes and self.trial_peak_bytes else None


class Record(RecordPart):
    """One launch."""

    format: int = 1
    status: str = ""
    fit_only: bool | None = None
    """True: only trials were asked for; null: an older autofit's record, which doesn't say."""
    recipe: str = ""
    rung: dict[str, Any] | None = None
    """The full run's rung, now or at its end; before the run the rung that fits."""
    rung_index: int | None = None
    accumulation: int | None = None
    effective_batch: int | None = None
    effective_batch_seen: bool = False
    effective_batch_asked: int | None = None
    began: float | None = None
    """Time at which it was launched, in seconds since 1970."""
    trying: RungRecord | None = None
    """The rung whose trial is under way."""
    waits_for: str = ""
    """The holder of the card that is waited for just now."""
    given_up: dict[str, Any] | None = None
    """Values given up by the used rung: wheel -> the asked value and the used one."""
    ladder: list[LadderRecord] = []
    """The best rungs, which are tried first; empty until the search is over."""
    trials: list[TrialRecord] = []
    attempts: list[AttemptRecord] = []
    same_training: RunCertificate | None = None
    chosen_rung_index: int | None = None
    cwd: str = ""
    run_dir: str = ""
    command: str | None = None
    device: DeviceRecord = DeviceRecord()
    environment: dict[str, str] = {}
    """Versions that it ran with, by name: Python and packages as its trial's process had loaded them, and the card's driver."""
    trial_seconds: float = 0.0
    kept: KeptRecord = KeptRecord()
    misread: MisreadRecord | None = None
    could_fit: list[CouldRecord] = []
    run: RunRecord | None = None
    steps: RunSteps | None = None
    memory: MemoryRecord | None = None
    results: dict[str, Any] = {}
    """Results of the full run."""

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Reads a record; None if there is no file, it is torn, or of another shape."""
        with suppress(OSError, ValidationError):
            return cls.model_validate_json(files.read(path))
        return None


def schema() -> str:
    """The JSON schema of a record, as docs/record.schema.json has it."""
    return json.dumps(Record.model_json_schema(), indent=2) + "\n"
