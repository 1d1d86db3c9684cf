"""The part of this process in a trial: whether it takes part, which card is its own, its budget, and the report that it leaves."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import gc
import importlib
import os
import signal
import sys
import threading
import time
from typing import Any

from ..common.orders import CAME, GONE, Orders, ProbeSettings
from ..common.report import CARD, OTHER_CARDS, RANK, TRAINED, WORLD_SIZE, Phase
from . import budget, cards
from .recorder import OverCap, Recorder


class TakingPart:
    """A process that takes part from the first module that it builds; one forked off to train, from its first pass over data."""

    def __init__(self, settings: ProbeSettings) -> None:
        self.settings = settings
        self.orders = Orders(**settings.orders)
        self.recorder: Recorder | None = None
        self._weights: dict[int, int] = {}
        self.phase = Phase.START
        self._its_turn = False
        self._closed = False
        """True: the process is no part of the trial, or its part is over."""
        self._taken: budget.Taken | None = None
        self._card: int | None = None
        """Number of this process's card, where the command has several."""

    @property
    def settled(self) -> bool:
        """True once the budget is taken, or never will be in this process."""
        return self.recorder is not None or self._closed

    @property
    def active(self) -> bool:
        return self.recorder is not None and not self._closed

    def leave(self) -> None:
        """Takes no further part: this process is a child of ours, say."""
        self._closed = True

    def open(self, card: int | None = None) -> None:
        """Takes the budget, once: everything that is made from here on is inside it. Of several cards its own, as soon as that is known.

        ``card``: number of the card on which this process is seen to train. A child that was forked off has its parent's budget.
        """
        if self.settled or not self._knows_its_card(card):
            return
        if _is_a_worker() and (self.orders.device == "cuda" or self._taken is not None):
            self.leave()  # a context of its own would be taken from the card
            return
        self._imports_more()
        self.wait_for_turn()
        self._taken = self._taken or self._take()
        if self.settings.budget_only:
            self.leave()
            return
        if is_a_child():
            sys.modules["multiprocessing.util"].Finalize(None, self.at_exit, exitpriority=0)  # it ends without atexit, or its error caught
        self.recorder = self._report()
        self.recorder.budget(self._taken)
        self.to(Phase.SETUP)

    def wait_for_turn(self) -> None:
        """Waits at the last moment before the device is used, where this process was begun ahead of its turn, or ends it."""
        if not (turn := self.settings.turn) or self._its_turn:
            return
        if not os.path.exists(turn):
            if threading.active_count() > 1 or any(signal.getitimer(signal.ITIMER_REAL)):
                os._exit(GONE)  # for a thread, or an alarm, time would be over while it waits: it is begun anew at its turn
            open(f"{turn}{CAME}", "ab").close()
            self._imports_more(ahead=True)
        while not os.path.exists(turn):
            time.sleep(0.01)
        with open(turn, encoding="utf-8") as told:
            if free := told.read():  # of its card, now that it is this process's
                self.orders = dataclasses.replace(self.orders, idle_free_bytes=int(free))
        self._its_turn = True

    def _imports_more(self, *, ahead: bool = False) -> None:
        """Imports what every optimizer does, where torch itself is there: a library, so part of a CPU's base. ``ahead``: it has to wait."""
        if (ahead or self.orders.device == "cpu") and not getattr(
            getattr(sys.modules.get("torch"), "__spec__", None), "_initializing", True
        ):
            importlib.import_module("torch._dynamo")

    def takes_part(self) -> None:
        """Opens a child that was forked off with its parent's budget, and trains: a data loader's worker doesn't."""
        if self._taken is not None and not self.settled:
            self.open()

    def _report(self) -> Recorder:
        folder = os.path.join(self.settings.records, str(os.getpid()))
        os.makedirs(folder, exist_ok=True)
        return Recorder(dataclasses.replace(self.orders, folder=folder))

    def _knows_its_card(self, seen: int | None) -> bool:
        if self.orders.device == "cpu" or not self.orders.cards or self._card is not None or _is_a_worker():
            return True
        self._card = seen if seen is not None else cards.chosen()
        if self._card is not None:
            self.orders = cards.orders_on(self.orders, self._card)
        return self._card is not None

    def _take(self) -> budget.Taken:
        """Takes the budget; the script's own choice of a current card stays as it is."""
        if self._card is None:
            return budget.take(self.orders)
        import torch

        with torch.cuda.device(self._card):
            return budget.take(self.orders)

    def opened_by(self, optimizer: Any) -> None:
        """An optimizer is made: a model may have been built as a module of the person's own was imported. The card of what it trains is
        this process's, where it hasn't shown another choice."""
        if self.settled:
            return
        if not self.orders.cards:
            self.open()
            return
        numbers = (one.device.index for group in optimizer.param_groups for one in group["params"] if one.device.type == "cuda")
        if (number := next(numbers, None)) is not None:
            self.open(number)

    def weighs(self, optimizer: Any) -> None:
        """Says how many weights are trained to begin with, each counted once however many optimizers have it."""
        if self.recorder is not None and self.recorder.told.optimizer_steps > 1:
            return  # a later stage's: a trial that fails doesn't come there
        with contextlib.suppress(Exception):  # what isn't there yet has no number
            self._weights |= {id(one): one.numel() for group in optimizer.param_groups for one in group["params"]}
        if self.recorder is not None:
            self.recorder.fact(**{TRAINED: sum(self._weights.values())})

    def observe_device(self, optimizer: Any) -> None:
        """Says where an optimizer's parameters are. Raises BudgetError where that isn't the card whose budget was taken."""
        assert self.recorder is not None
        first = next((parameter for group in optimizer.param_groups for parameter in group["params"]), None)
        if first is not None:
            self.recorder.observe(device=first.device.type)
            if self.orders.device == first.device.type == "cuda":
                cards.same(self.orders, self._card, first.device.index)

    # -- the report

    def at_exit(self) -> None:
        """The program ends by itself in this process."""

    def to(self, phase: Phase) -> None:
        """The trial goes on to ``phase``; it ends where the phase before needed more than the cap."""
        if self.recorder is not None and phase is not self.phase:
            self.phase = phase
            self._tell_its_place()
            try:
                self.recorder.phase(phase)
            except OverCap as over:
                self.fail(over)

    def fail(self, error: BaseException) -> None:
        """Ends the process and the trial. Doesn't return."""
        assert self.recorder is not None
        self.recorder.failed(error)
        self.end(1)

    def end(self, status: int) -> None:
        """Ends the process. Doesn't return."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(status)

    def tell(self, **facts: Any) -> None:
        """Puts facts into the report, with what stands outside of the instrument: accumulation and checkpointing from outside."""
        assert self.recorder is not None
        for text in getattr(accumulation_from_outside(), "notes", ()):
            self.recorder.note(text)
        if (outside := getattr(sys.modules.get("_autofit_checkpointing"), "CHECKPOINTING", None)) is not None:
            self.recorder.observe(checkpointing=outside.seen)
            for text in outside.told():
                self.recorder.note(text)
        self._tell_its_place()
        self.recorder.fact(mode=self.settings.mode, **facts)

    def _tell_its_place(self) -> None:
        """Tells which of several processes this is, and what it has had of cards that aren't its own."""
        assert self.recorder is not None
        if (dist := distributed()) is not None:
            self.recorder.fact(**{RANK: dist.get_rank(), WORLD_SIZE: dist.get_world_size()})
        if self._card is not None:
            with contextlib.suppress(Exception):  # a context that a failure broke
                self.recorder.fact(**{CARD: self.orders.device_uuid, OTHER_CARDS: cards.elsewhere(self._card)})

    def swallowed_perhaps(self, error: BaseException) -> None:
        """A memory failure passed through: the script may catch it and go on. Where it ends the script, that end counts."""
        if self.active and self.recorder is not None and is_memory(error):
            with contextlib.suppress(Exception):
                self.recorder.swallowed(f"{type(error).__name__}: {str(error).strip().splitlines()[0][:300]}")


def end_soon(*, last: bool = False) -> None:
    """Leaves out the interpreter's search for cycles at its end, which takes a second and more with torch, and what libraries do and say
    then; ``last``, after which nothing comes, what would take their modules apart (a fork copies each page). The exit status stays."""
    sys.stderr.flush()
    gc.freeze()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    ctypes.CDLL(None).on_exit(ctypes.CDLL(None)._exit, None)
    if last:
        main = sys.modules.pop("__main__")  # its files are written out
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(list(sys.modules.values())))
        sys.modules.clear()
        sys.modules["__main__"] = main


def accumulation_from_outside() -> Any:
    """Returns the object that holds this process's optimizer steps back (``native/accumulate.py``), or None."""
    return getattr(sys.modules.get("_autofit_accumulate"), "OUTSIDE", None)


def is_a_child() -> bool:
    """Tells whether ``multiprocessing`` has started this process."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def _is_a_worker() -> bool:
    """Tells whether this process loads data for another (such processes are daemons)."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and bool(process.current_process().daemon)


def distributed() -> Any:
    """torch.distributed where a group of several is up, else None: where torch isn't loaded, too, which a script's Python may not have."""
    dist = sys.modules.get("torch.distributed")
    return dist if dist is not None and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1 else None


def world_size() -> int:
    """Data-parallel processes, as far as can be told."""
    dist = distributed()
    return int(dist.get_world_size()) if dist is not None else 1


def is_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)
