"""Records what a trial does, phase by phase, in ``report.json``, which is rewritten at every change of phase.

Any trainer's module reuses this: it calls ``phase``, ``batch`` and ``optimizer_step`` at the right moments, and says what it saw.
Memory is metered by ``meters``.
Nothing is decided here; ``verdict`` in the launcher judges.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..shared.orders import Orders
from ..shared.report import PARTS, VERSIONS, Failure, Phase, PhaseUse, TrialReport
from . import snapshot, versions
from .budget import Taken
from .loaders import HeldAhead
from .memory_parts import CountedParts
from .meters import Meter, meter_of

BEAT_S = 0.5
"""Between two touches of the report while batches come."""

MEASURES = frozenset(
    {"growth_bytes_per_batch", "validation_batches_total", "validation_batches_left", "train_samples", "validation_samples"}
)
"""Fields of the report that only the trainer's module can know."""


class OverCap(BaseException):
    """A phase needed more than the cap. A BaseException: no handler of a trainer's may take it for a failure it can get over."""


class Recorder:
    """The growing report of one trial. One thread only, save for the meter's own."""

    def __init__(self, orders: Orders, clock: Callable[[], float] = time.monotonic) -> None:
        self._orders = orders
        self._clock = clock
        self._meter = Meter()
        self._phase = Phase.START
        self._phase_began = clock()
        self._phase_batches = 0
        self._last_batch: float | None = None
        self._uses: list[PhaseUse] = []
        self._batches = dict.fromkeys(Phase, 0)
        self._intervals: dict[str, list[float]] = {"train": [], "validate": [], "half": []}
        self._halves = False
        self._optimizer_steps = 0
        self._observed: dict[str, Any] = {}
        self._facts: dict[str, Any] = {}
        self._parts = CountedParts(orders.device)
        self._ahead = HeldAhead()
        self._measures: dict[str, Any] = {}
        self._swallowed: list[str] = []
        self._notes: list[str] = []
        self._hint = ""
        self._taken = Taken(cap_bytes=0, ceiling_bytes=0, base_bytes=0)
        self._loss_finite: bool | None = None
        self._failure: Failure | None = None
        self._beaten = 0.0
        self.write()

    # -- what happens

    def budget(self, taken: Taken) -> None:
        """The budget was taken (``budget.take``): metering starts here, above this base."""
        self._taken = taken
        self._meter = meter_of(self._orders, taken)
        self._meter.reset()
        if "torch" in sys.modules:
            self._ahead.watch()
        if self._orders.snapshot:
            snapshot.begin()
        self.write()

    def phase(self, phase: Phase) -> None:
        """A phase begins; the one before it is closed with its peaks, and the report is written.

        Raises OverCap where the phase that ends needed more than the cap: the trial has failed, and the rest would cost time only.
        """
        self._close_phase()
        if self._taken.cap_bytes and self._uses[-1].held_bytes > self._taken.cap_bytes:
            raise OverCap(f"phase {self._phase.value} needed {self._uses[-1].held_bytes} bytes, the cap is {self._taken.cap_bytes}")
        self._phase = phase
        self._meter.reset()
        if phase is Phase.DONE:
            self._meter.close()
        self.write()

    def batch(self, *, timed: bool = True) -> None:
        """A micro-batch (or validation batch) of this phase is through: its loss, backward and share of the step are done.

        ``timed``: its seconds are those of the run's batches. One that is there for its shape only has fewer samples.
        """
        self.sample()
        now = self._clock()
        self._phase_batches += 1
        self._batches[self._phase] += 1
        if timed and self._last_batch is not None:  # the first batch of a phase, and those up to the first optimizer step, warm things up
            if self._phase in (Phase.TRAIN, Phase.TRAIN_AGAIN):
                self._intervals["half" if self._halves else "train"].append(now - self._last_batch)
            elif self._phase is Phase.VALIDATE:
                self._intervals["validate"].append(now - self._last_batch)
        if self._phase is Phase.VALIDATE or self._optimizer_steps:
            self._last_batch = now

    def halves_begin(self) -> None:
        """The micro-batches that come now are of half the samples: their time per sample is held against that of whole ones."""
        self._halves = True

    def sample(self) -> None:
        """Looks at memory without counting a batch."""
        self.beat()
        self._meter.sample()

    def leave_out(self, pid: int) -> None:
        """What this process, a child of ours, needs isn't the trainer's."""
        self._meter.leave_out(pid)

    def optimizer_step(self) -> None:
        """The optimizer has stepped. Call it before the ``batch`` that completes the step."""
        self._optimizer_steps += 1
        if self._optimizer_steps == 1:
            self._meter.stepped()

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has stepped, whether that is one of the training's steps or one of several that make it."""
        self._parts.count(optimizer)

    # -- what was seen

    def observe(self, **wheels: Any) -> None:
        """What the trainer really ran, by the name of the wheel."""
        self._observed.update(wheels)

    @property
    def observed(self) -> dict[str, Any]:
        """What was observed so far; a copy."""
        return dict(self._observed)

    def fact(self, **facts: Any) -> None:
        """Trainer-specific facts that the full run needs."""
        self._facts.update(facts)

    def loss(self, *, finite: bool) -> None:
        """Whether a training loss was a finite number; one that was not is enough."""
        self._loss_finite = finite and self._loss_finite is not False

    def measured(self, **measures: float) -> None:
        """Sets those of ``MEASURES`` that are named."""
        unknown = measures.keys() - MEASURES
        if unknown:
            raise TypeError(f"not a measure: {', '.join(sorted(unknown))}; measures are {', '.join(sorted(MEASURES))}")
        self._measures.update(measures)

    @property
    def batches_of_validation(self) -> int:
        """Batches of the whole validation set that was begun last; 0 where nobody knows."""
        return int(self._measures.get("validation_batches_total", 0))

    def note(self, text: str) -> None:
        """What a reader of the verdict should know; said once however often it is noted."""
        if text not in self._notes:
            self._notes.append(text)

    def hint(self, text: str) -> None:
        """Where the trial fell short, in words for people: what it could not see. The report is written at once."""
        self._hint = text
        self.write()

    def swallowed(self, text: str) -> None:
        """A memory failure that the trainer hid. The report is written at once: the trainer may not live long."""
        if text not in self._swallowed:
            self._swallowed.append(text)
            self.write()

    @property
    def lost_some(self) -> bool:
        """Whether a memory failure was hidden by the trainer."""
        return bool(self._swallowed)

    def ended(self) -> None:
        """The process ends in this phase, by itself: the phase is closed with its peaks, and the report is written."""
        self._close_phase()
        self._meter.close()
        self.write()

    def failed(self, error: BaseException) -> None:
        """The trial ended by ``error``: closes the phase it died in and writes the report."""
        self._failure = failure_of(error)
        if self._orders.snapshot:
            snapshot.keep(Path(self._orders.folder))
        with contextlib.suppress(Exception):  # a broken CUDA context must not cost us the report
            if not isinstance(error, OverCap):  # its phase is closed
                self._close_phase()
        self._meter.close()
        self.write()

    # -- the report

    def report(self) -> TrialReport:
        return TrialReport(
            phase=self._phase.value,
            failure=self._failure,
            observed=dict(self._observed),
            optimizer_steps=self._optimizer_steps,
            train_batches=self._batches[Phase.TRAIN],
            validation_batches=self._batches[Phase.VALIDATE],
            train_again_batches=self._batches[Phase.TRAIN_AGAIN],
            uses=tuple(self._uses),
            cap_bytes=self._taken.cap_bytes,
            ceiling_bytes=self._taken.ceiling_bytes,
            base_bytes=self._taken.base_bytes,
            device_total_bytes=self._meter.total_bytes,
            loss_finite=self._loss_finite,
            step_seconds=_mean(self._intervals["train"]),
            full_step_seconds=self._intervals["train"][-1] if self._intervals["half"] and self._intervals["train"] else 0.0,
            half_step_seconds=self._intervals["half"][-1] if self._intervals["half"] else 0.0,
            validation_batch_seconds=_mean(self._intervals["validate"]) or self._only_validation_batch(),
            swallowed=tuple(self._swallowed),
            notes=tuple(self._notes),
            hint=self._hint,
            facts={
                **self._facts,
                VERSIONS: versions.loaded(),
                PARTS: self._parts.told(),
                **self._ahead.fact(),
            },
            **self._measures,
        )

    def write(self) -> None:
        self.report().write(self._orders.report_path)

    def beat(self) -> None:
        """Touches the report now and then: who watches from outside sees that batches come."""
        now = time.monotonic()
        if now - self._beaten > BEAT_S:
            self._beaten = now
            with contextlib.suppress(OSError):
                os.utime(self._orders.report_path)

    def _only_validation_batch(self) -> float:
        """Seconds per batch of a validation that had a single one: nothing better is known."""
        return next((use.seconds / use.batches for use in self._uses if use.phase == Phase.VALIDATE and use.batches), 0.0)

    def _close_phase(self) -> None:
        seconds = self._clock() - self._phase_began
        with contextlib.suppress(Exception):  # a context that a failure broke still tells its peaks
            self._meter.sample()
        peaks = self._meter.peaks()
        self._notes += [f"{self._phase.value}: {text}" for text in self._meter.remarks()]
        self._uses.append(
            PhaseUse(
                phase=self._phase.value,
                seconds=seconds,
                batches=self._phase_batches,
                device_bytes=peaks.reserved_bytes + peaks.outside_bytes,
                **peaks._asdict(),
            )
        )
        self._phase_began, self._phase_batches, self._last_batch = self._clock(), 0, None


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


# ----------------------------------------------------------------------------------------------------------------------
# Failures


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, then what caused it, as a traceback would show them; outermost first."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def failure_of(error: BaseException) -> Failure:
    """``error`` and everything it came from, as text."""
    chain = tuple(_chain(error))
    types = tuple(dict.fromkeys(cls.__name__ for link in chain for cls in type(link).__mro__ if cls is not object))
    message = "\n".join(f"{type(link).__name__}: {link}" for link in chain)
    return Failure(types=types, message=message, traceback="".join(traceback.format_exception(error)))
