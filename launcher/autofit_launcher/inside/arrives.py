"""Tells where a command's training batch arrives: the line of its data loader, and the fields with which a known trainer is called."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..common.report import ARRIVED

if TYPE_CHECKING:
    from .instrument import Instrument

_DEEPEST = 5
"""Batch samplers within each other that are looked through."""


class Arrives:
    """Numbers that have arrived in a process, by the words in which a rung is set there: ``loader:train.py:31``, ``call:batch_size``."""

    def __init__(self, instrument: Instrument) -> None:
        self._instrument = instrument
        self._made: weakref.WeakKeyDictionary[Any, tuple[str, int]] = weakref.WeakKeyDictionary()
        """Batch sampler of a loader -> the line that makes it, and its batch size. The loader itself may be gone: libraries make another of
        it (accelerate's ``prepare``), by the same batch sampler."""
        self._found: dict[str, Any] = {}

    def at(self, loader: Any, place: str) -> None:
        """A loader is made in that line."""
        if isinstance(loader.batch_size, int) and loader.batch_sampler is not None:
            self._made[loader.batch_sampler] = place, loader.batch_size

    def given(self, fields: Mapping[str, Any]) -> None:
        """A known trainer is called with these."""
        self._tell({f"call:{name}": value for name, value in fields.items()})

    def trains(self, loader: Any) -> None:
        """A batch of this loader is trained."""
        sampler = getattr(loader, "batch_sampler", None)
        for _ in range(_DEEPEST):
            if sampler is not None and sampler in self._made:
                place, size = self._made[sampler]
                self._tell({f"loader:{place}": size})
                return
            sampler = getattr(sampler, "batch_sampler", None)

    def _tell(self, found: Mapping[str, Any]) -> None:
        self._found |= found
        if self._instrument.recorder is not None:
            self._instrument.recorder.fact(**{ARRIVED: dict(self._found)})
