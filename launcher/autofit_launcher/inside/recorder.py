"""Records what a trial does, phase by phase, in ``report.json``, which is rewritten at every change of phase.

Any trainer's module reuses this: it calls ``phase``, ``batch`` and ``optimizer_step`` at the right moments, and says what it saw.
Memory is metered by ``meters``. Nothing is decided here; ``trial.judge`` in the launcher judges.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from ..common.orders import Orders
from ..common.report import SEARCHES, VERSIONS, Failure, Phase, PhaseUse, TrialReport
from .budget import Taken
from .loaders import HeldAhead
from .meters import Meter, meter_of

BEAT_S = 0.5
"""Seconds between two touches of the report while batches come."""

PACKAGES = (
    "torch", "torchvision", "ultralytics", "transformers", "accelerate", "lightning", "pytorch_lightning", "sentence_transformers", "trl",
    "peft", "deepspeed", "bitsandbytes", "timm", "datasets", "numpy",
)  # fmt: skip
"""Packages whose versions are told."""
_COUNTED = {Phase.TRAIN: "train_batches", Phase.VALIDATE: "validation_batches", Phase.TRAIN_AGAIN: "train_again_batches"}


class OverCap(BaseException):
    """A phase needed more than the cap. A BaseException: no handler of a trainer's may take it for a failure it can get over."""


class Recorder:
    """The growing report of one trial. One thread only, save for the meter's own."""

    def __init__(self, orders: Orders, clock: Callable[[], float] = time.monotonic) -> None:
        self.told = TrialReport()
        """The report as recorded so far, without what ``report`` works out."""
        self._orders, self._clock = orders, clock
        self._meter = Meter()
        self._phase_began, self._phase_batches = clock(), 0
        self._last_batch: float | None = None
        self._halves = False
        self._ahead = HeldAhead()
        self._beaten = 0.0
        self.write()

    # -- what happens

    def budget(self, taken: Taken) -> None:
        """The budget was taken (``budget.take``): metering starts here, above this base."""
        self._meter = meter_of(self._orders, taken)
        self._meter.reset()
        self.told = dataclasses.replace(self.told, **dataclasses.asdict(taken))
        if "torch" in sys.modules:
            self._ahead.watch()
        self.write()

    def phase(self, phase: Phase) -> None:
        """A phase begins; the one before it is closed with its peaks, and the report is written.

        Raises OverCap where the phase that ends needed more than the cap: the trial has failed, and the rest would cost time only.
        """
        self._close_phase()
        cap, held = self.told.cap_bytes, self.told.uses[-1].held_bytes
        if cap and held > cap:
            raise OverCap(f"phase {self.told.phase} needed {held} bytes, the cap is {cap}")
        self.told.phase = phase.value
        self._meter.reset()
        if phase is Phase.DONE:
            self._meter.close()
        self.write()

    def batch(self) -> None:
        """A micro-batch (or validation batch) of this phase is through: its loss, backward and share of the step are done."""
        self.sample()
        now, phase = self._clock(), Phase(self.told.phase)
        self._phase_batches += 1
        if phase in _COUNTED:
            setattr(self.told, _COUNTED[phase], getattr(self.told, _COUNTED[phase]) + 1)
        if self._last_batch is not None and phase in (Phase.TRAIN, Phase.TRAIN_AGAIN):
            setattr(self.told, "half_step_seconds" if self._halves else "full_step_seconds", now - self._last_batch)
        self._last_batch = now

    def is_over(self) -> bool:
        """Tells whether this phase has needed more than the cap already."""
        return 0 < self.told.cap_bytes < self._meter.peaks().get("reserved_bytes", 0)

    def halves_begin(self) -> None:
        """The micro-batches that come now are of half the samples: their time per sample is held against that of whole ones."""
        self._halves = True

    def sample(self) -> None:
        """Looks at memory without counting a batch."""
        self.beat()
        self._meter.sample()

    def leave_out(self, pid: int) -> None:
        """Leaves out what this process, a child of ours, needs: it isn't the trainer's."""
        self._meter.leave_out(pid)

    def optimizer_step(self) -> None:
        """The optimizer has stepped. Call it before the ``batch`` that completes the step."""
        self.told.optimizer_steps += 1
        if self.told.optimizer_steps == 1:
            self._meter.stepped()

    # -- what was seen

    def observe(self, **wheels: Any) -> None:
        """Notes what the trainer really ran, by the name of the wheel."""
        self.told.observed.update(wheels)

    def observe_most(self, **sizes: int) -> None:
        """Notes the largest that came so far, by the name of the wheel."""
        self.observe(**{name: max(size, self.told.observed.get(name, 0)) for name, size in sizes.items()})

    @property
    def observed(self) -> dict[str, Any]:
        """A copy of what was observed so far."""
        return dict(self.told.observed)

    def fact(self, **facts: Any) -> None:
        """Notes trainer-specific facts that the full run needs."""
        self.told.facts.update(facts)

    def loss(self, *, finite: bool) -> None:
        """Notes whether a training loss was a finite number; one that was not is enough."""
        self.told.loss_finite = finite and self.told.loss_finite is not False

    def measured(self, **measures: float) -> None:
        """Sets fields of the report that only the trainer's module can know."""
        for name, value in measures.items():
            setattr(self.told, name, value)

    def note(self, text: str) -> None:
        """Notes a sentence that a reader of the verdict should know; it is said once however often it is noted."""
        self.told.notes = tuple(dict.fromkeys((*self.told.notes, text)))

    def swallowed(self, text: str) -> None:
        """A memory failure that the trainer hid. The report is written at once: the trainer may not live long."""
        if text not in self.told.swallowed:
            self.told.swallowed += (text,)
            self.write()

    def ended(self) -> None:
        """The process ends in this phase, by itself: the phase is closed with its peaks, and the report is written."""
        self._close_phase()
        self._meter.close()
        self.write()

    def failed(self, error: BaseException) -> None:
        """The trial ended by ``error``: closes the phase it died in and writes the report."""
        self.told.failure = failure_of(error)
        with contextlib.suppress(Exception):  # a broken CUDA context must not cost us the report
            if not isinstance(error, OverCap):  # its phase is closed
                self._close_phase()
        self._meter.close()
        self.write()

    # -- the report

    def report(self) -> TrialReport:
        return dataclasses.replace(self.told, facts={**self.told.facts, VERSIONS: versions(), **self._ahead.fact(), **_searches()})

    def write(self) -> None:
        self.report().write(self._orders.report_path)

    def beat(self) -> None:
        """Touches the report now and then: who watches from outside sees that batches come."""
        now = time.monotonic()
        if now - self._beaten > BEAT_S:
            self._beaten = now
            with contextlib.suppress(OSError):
                os.utime(self._orders.report_path)

    def _close_phase(self) -> None:
        seconds = self._clock() - self._phase_began
        with contextlib.suppress(Exception):  # a context that a failure broke still tells its peaks
            self._meter.sample()
        use = PhaseUse(phase=self.told.phase, seconds=seconds, batches=self._phase_batches, **self._meter.peaks())
        self.told.uses += (dataclasses.replace(use, device_bytes=use.held_bytes),)
        self._phase_began, self._phase_batches, self._last_batch = self._clock(), 0, None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, then what caused it, as a traceback would show them; outermost first."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def versions() -> dict[str, str]:
    """Name -> version of Python, the packages that training mostly hangs on, and the CUDA that torch was built for, as far as this process
    has loaded them. Nothing is loaded for it: what a trial imports counts against its budget."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = str(version)
    cuda = getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None)
    return {**found, "cuda": str(cuda)} if cuda else found


def _searches() -> dict[str, bool]:
    backends = getattr(sys.modules.get("torch"), "backends", None)
    return {SEARCHES: True} if getattr(getattr(backends, "cudnn", None), "benchmark", False) else {}


def failure_of(error: BaseException) -> Failure:
    """``error`` and everything it came from, as text."""
    chain = tuple(_chain(error))
    types = tuple(dict.fromkeys(cls.__name__ for link in chain for cls in type(link).__mro__ if cls is not object))
    message = "\n".join(f"{type(link).__name__}: {link}" for link in chain)
    return Failure(types=types, message=message, traceback="".join(traceback.format_exception(error)))
