"""Where the batch that a command trains on arrives: the line of its data loader, and the fields with which a known trainer is called."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..shared.report import ARRIVED

if TYPE_CHECKING:
    from .instrument import Instrument

_DEEPEST = 5
"""Batch samplers within each other that are looked through."""


class Arrives:
    """What has arrived in one process, by the words in which a rung is set there: ``loader:train.py:31``, ``call:batch_size``."""

    def __init__(self, instrument: Instrument) -> None:
        self._instrument = instrument
        self._made: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        """Loader -> the line that makes it."""
        self._found: dict[str, Any] = {}

    def at(self, loader: Any, place: str) -> None:
        """A loader is made in that line."""
        self._made[loader] = place

    def given(self, fields: Mapping[str, Any]) -> None:
        """A known trainer is called with these."""
        self._tell({f"call:{name}": value for name, value in fields.items()})

    def trains(self, loader: Any) -> None:
        """A batch of this loader is trained."""
        own = self._own(loader)
        if own in self._made and isinstance(own.batch_size, int):
            self._tell({f"loader:{self._made[own]}": own.batch_size})

    def _own(self, loader: Any) -> Any:
        """The script's loader that a library has made this one of: both have one batch sampler."""
        sampler = getattr(loader, "batch_sampler", None)
        for _ in range(_DEEPEST if getattr(loader, "batch_size", None) is None else 0):
            same = next((one for one in list(self._made) if one.batch_size is not None and one.batch_sampler is sampler), None)
            if same is not None or sampler is None:
                return same if same is not None else loader
            sampler = getattr(sampler, "batch_sampler", None)
        return loader

    def _tell(self, found: Mapping[str, Any]) -> None:
        self._found |= found
        if self._instrument.recorder is not None:
            self._instrument.recorder.fact(**{ARRIVED: dict(self._found)})
