"""The report of a trial's child to the launcher, as plain values, with the names of its facts and exceptions.

The child (``autofit_launcher.inside``) replaces ``report.json`` at every change of phase, so that even a child killed by a signal leaves
the phase it died in. The launcher only reads it.
All sizes are bytes, all times are monotonic seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from . import files


class Phase(StrEnum):
    """The phases of a run that a trial goes through. ``TRAIN`` and ``VALIDATE`` mean a memory failure may be cured by a rung."""

    START = "start"  # importing the trainer, taking the budget
    SETUP = "setup"  # model, optimizer object, data loaders
    TRAIN = "train"  # optimizer steps with accumulation
    VALIDATE = "validate"  # the forced validation pass
    SAVE = "save"  # a checkpoint is written: where a run fails; a trial's is part of what stands beside it
    TRAIN_AGAIN = "train_again"  # training goes on after validation: where fragmentation kills
    FINISH = "finish"  # how a run ends: the best checkpoint loaded beside everything else and validated, figures drawn
    RESUME = "resume"  # a new process loads the checkpoint that the trial has saved, and makes an optimizer step at least
    DONE = "done"


OVER_CAP = "OverCap"
"""Name of the exception by which a trial's child ends as soon as a phase has needed more than the cap."""
BUDGET_ERROR = "BudgetError"
"""Name of the exception by which a child says that its budget can't be made real: our fault or the machine's, never the trainer's."""

VERSIONS = "versions"
"""Fact of a report: what the trainer's process ran with, name -> version."""
SEARCHES = "searches"
"""Fact of a report: cuDNN may try for each convolution what is the fastest, in all the room that there is (``cudnn.benchmark``)."""
HELD_AHEAD = "held_ahead"
"""Fact of a report: bytes that loaders with workers hold ahead at most (``inside.loaders``)."""
HOST_BESIDE = "host_beside"
"""Fact of a report: bytes of host memory beside a card that the run holds and the trial doesn't: what it gathers of a whole pass."""
HOST_GROWTH = "host_growth"
"""Fact of a report: bytes of host memory beside a card that each validation batch leaves behind."""
SAMPLES = "samples_per_accumulation"
"""Fact of a report: samples in an optimizer step, over all processes, for each micro-batch that the trainer was told to accumulate."""
OWN_ACCUMULATION = "own_accumulation"
"""Fact of a report: micro-batches that the trainer takes by itself for each that it was told to accumulate."""
SAID_ACCUMULATION = "said_accumulation"
"""Fact of a report: accumulation as the trainer's own settings say it, known before its first step."""
WORLD_SIZE = "world_size"
"""Fact of a report: processes that train together, as PyTorch's process group has them."""
RANK = "rank"
"""Fact of a report: which of a script's own processes it is, as PyTorch's process group has it."""
CARD, OTHER_CARDS = "card", "other_cards"
"""Facts of a report of one of several processes on cards: the UUID of its own, and UUID -> bytes that its allocator had on any other."""
DIVIDED_BY = "batch_divided_by"
"""Fact of a report: processes over which a script divides the micro-batch that it is told."""
DRAWN_BATCH = "drawn_batch"
"""Fact of a report: (fewest, most) samples of a training batch that were seen, where its loader says no number of them."""
MICRO_BATCHES = "micro_batches"
"""Fact of a report: samples of a script's training batches, each size once, in the order in which they came."""
STEP = "samples_per_step"
"""Samples of an optimizer step at a lower rung, among what trials show of rung 0's settings, if rung 0 ended before its first step."""
ARRIVED = "arrived"
"""Fact of a report: where a command's numbers arrive, in the words by which a rung sets them there -> what arrived
(``inside.arrives``)."""
TRAINED = "trained_weights"
"""Fact of a report: numbers that the optimizers train that were made in this process before its second step."""
PASS_SAMPLES = "samples_of_a_pass"
"""Fact of a report: samples of a whole pass over the training data, by its loader's own sampler, in all processes together."""
LEFT_AFTER = "left_after"
"""Fact of a report: training batches after which the script itself leaves each pass; 0: one was followed to its end."""
UPDATES = "updates_in_all"
"""Fact of a report: optimizer steps of the whole training, as its trainer has worked them out before the first (``SAID_ACCUMULATION``)."""
SAVED = "saved"
"""Fact of a report: where a script's trial has saved a checkpoint to go on from (``at``), and the least that its run has of such at once
on that disk (``bytes``)."""
NOT_EXACT = "NotExact"
"""Name of the exception by which what accumulates from outside of a script says that it can't be exact there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseUse:
    """The memory that one phase used, at most, and the time it took."""

    phase: str
    seconds: float
    batches: int = 0
    """Micro-batches (training) or validation batches that really went through."""
    allocated_bytes: int = 0
    """CUDA: peak of live tensors in PyTorch's allocator. CPU: as reserved, since nobody tells which of it is in use."""
    reserved_bytes: int = 0
    """CUDA: peak reserved by PyTorch's allocator. CPU: peak of the data segments above the base, VmData."""
    device_bytes: int = 0
    """CUDA: reserved and outside together, what this process held of the card. CPU: as reserved."""
    outside_bytes: int = 0
    """CUDA: most that this process held outside PyTorch's allocator: context, kernels loaded late, libraries. CPU: 0."""
    retries: int = 0
    """CUDA: allocations that failed until the allocator had emptied its cache, those that failed even then included."""
    ooms: int = 0
    """CUDA: allocations that failed for good; an exception, or a library that is built to handle it (cuDNN trying plans)."""

    @property
    def held_bytes(self) -> int:
        """Bytes that count against the cap."""
        return self.reserved_bytes + self.outside_bytes

    @property
    def squeezed(self) -> int:
        """Allocations that succeeded only after the cache was emptied."""
        return max(0, self.retries - self.ooms)


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """The exception that ended a trial: the whole chain, as text, outermost first."""

    types: tuple[str, ...]
    """Class names along the method resolution order of every exception in the chain."""
    message: str
    """Messages of the whole chain (``__cause__``/``__context__``), one per line, each as ``TYPE: MESSAGE``, as a traceback ends."""
    traceback: str


@dataclass(kw_only=True, slots=True)
class TrialReport:
    """The report of a trial's child on itself."""

    phase: str = Phase.START.value
    failure: Failure | None = None
    observed: dict[str, Any] = field(default_factory=dict)
    """Wheel name -> the value that the trainer really ran (``micro_batch``, ``image_size``, ``val_micro_batch``, ``device``, ...)."""
    optimizer_steps: int = 0
    train_batches: int = 0
    validation_batches: int = 0
    train_again_batches: int = 0
    uses: tuple[PhaseUse, ...] = ()
    cap_bytes: int = 0
    """The limit that the trial must stay below: budget x (1 - headroom). CUDA: of the card, context included. CPU: above its base."""
    ceiling_bytes: int = 0
    """The bytes at which allocations fail. CUDA: the cap (the allocator's limit and what is outside). CPU: RLIMIT_DATA less the base."""
    base_bytes: int = 0
    """CPU: VmData when the cap was set. CUDA: what context and libraries had taken outside the allocator by then."""
    full_step_seconds: float = 0.0
    """Seconds of the last whole micro-batch."""
    half_step_seconds: float = 0.0
    """Seconds of one of half the samples, which comes behind it where the driver may spill; 0 where none was run."""
    loss_finite: bool | None = None
    """True if all training losses that were seen were finite numbers; None where none was seen."""
    growth_bytes_per_batch: float = 0.0
    """Bytes that each validation batch leaves on the device for good (gathered predictions); 0 where nothing is kept."""
    validation_batches_total: int = 0
    """Batches of the whole validation set at this validation micro-batch."""
    validation_batches_left: int | None = None
    """Batches that the trial left out of the validation pass that keeps most; None: of one pass, all of VALIDATE's were run in it."""
    train_samples: int = 0
    swallowed: tuple[str, ...] = ()
    """Memory failures the trainer hid from us (own batch halving, work moved to the CPU, allocator retries that failed)."""
    notes: tuple[str, ...] = ()
    """Sentences that a reader of the verdict should know (which data was the worst case, what was not covered)."""
    absent: tuple[str, ...] = ()
    """Phases that the full run doesn't have: the trial followed it to its own end and they never came. Not owed then."""
    hint: str = ""
    """The part of a run that the trial could not see, if it fell short, and what would let it, in words for people."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Trainer-specific facts that the full run needs (the resolved optimizer, say)."""

    @property
    def batches_left(self) -> int:
        """Validation batches whose growth is still to come in the run."""
        left = self.validation_batches_left
        return left if left is not None else max(0, self.validation_batches_total - self.validation_batches)

    @property
    def peak_bytes(self) -> int:
        """Most that the trial held of its device at once, as its cap counts it."""
        return max((use.held_bytes for use in self.uses), default=0)

    def write(self, path: Path) -> None:
        """Replaces ``path`` whole: a reader sees the old report or this one, never a torn file."""
        files.replace_json(path, self)

    @classmethod
    def read(cls, path: Path) -> TrialReport | None:
        """The report at ``path``, or None where the child never got so far as to write one."""
        if not (raw := files.read_json(path)):
            return None
        failure = raw.pop("failure", None)
        if failure is not None:
            failure = Failure(types=tuple(failure["types"]), message=failure["message"], traceback=failure["traceback"])
        uses = tuple(PhaseUse(**use) for use in raw.pop("uses", ()))
        for key in ("swallowed", "notes", "absent"):
            raw[key] = tuple(raw.get(key, ()))
        known = {name: value for name, value in raw.items() if name in cls.__dataclass_fields__}  # it may be an older version's
        return cls(failure=failure, uses=uses, **known)
