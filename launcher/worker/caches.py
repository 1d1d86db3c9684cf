"""Counts what loaders' workers come to keep of the samples that they read: a trial's have read few.

A cache is a dictionary of a data set's, or a list as long as the data set, that has more arrays after a batch than before it; of each
sample it is taken to keep as much as of those that were read. One that lets some go again isn't (``max_buffer_length``: Ultralytics' data
sets say so). Forked workers tell in memory that they have with their parent.
"""

from __future__ import annotations

import contextlib
import mmap
import struct
from collections.abc import Iterator
from typing import Any

SLOTS = 512
"""Workers that are told apart; what more of them keep isn't counted."""
MOST_THINGS = 4096
"""A dictionary with more isn't looked through after every batch: it isn't a cache of the few samples that a trial has read."""
_TOLD = struct.Struct("qq")
"""Of a worker: bytes of a sample that it keeps, and of all that it has come to keep."""


class Caches:
    """Of all loaders with workers of this process."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, SLOTS * _TOLD.size)
        self._loaders: list[tuple[int, int, int]] = []
        """Of each that has begun: samples that its workers come to have together, its first slot, its number of workers."""
        self._next = 0
        self._own: int | None = None
        """The slot of this worker; None in the process that has started it."""
        self._before = 0
        self._read: set[Any] = set()

    def begun(self, loader: Any) -> None:
        """A loader's workers are about to be started."""
        first = sum(workers for _, _, workers in self._loaders)
        samples = len(loader.dataset) if hasattr(loader.dataset, "__len__") else 0
        self._loaders.append((samples * (loader.num_workers if loader.persistent_workers else 1), first, loader.num_workers))
        self._next = first

    def started(self) -> None:
        """One of them, in the process that starts it."""
        self._next += 1

    def in_worker(self, data: Any) -> None:
        self._own = self._next
        self._before = _kept(data)

    def fetched(self, data: Any, read: Any) -> None:
        """A worker has read a batch. ``read``: the numbers of its samples."""
        if self._own is not None and self._own < SLOTS:
            self._read.update(read if isinstance(read, list) else [read])
            kept = max(0, _kept(data) - self._before)
            _TOLD.pack_into(self._memory, self._own * _TOLD.size, kept // len(self._read), kept)

    def bytes(self) -> int:
        """What workers come to keep beside what those of this trial have; of loaders with as many samples, one after the other, once."""
        most: dict[int, int] = {}
        for samples, first, workers in self._loaders:
            told = [_TOLD.unpack_from(self._memory, slot * _TOLD.size) for slot in range(first, min(first + workers, SLOTS))]
            more = max((each for each, _ in told), default=0) * samples - sum(there for _, there in told)
            most[samples] = max(most.get(samples, 0), more)
        return sum(most.values())


def _kept(data: Any) -> int:
    """Bytes of the arrays in the caches of a data set and of those within it."""
    return sum(_bytes(thing) for cache in _caches(data) for thing in cache)


def _caches(data: Any, depth: int = 3) -> Iterator[list[Any]]:
    fields = vars(data) if hasattr(data, "__dict__") else {}
    if "max_buffer_length" in fields:
        return
    length = len(data) if hasattr(type(data), "__len__") else -1
    for value in list(fields.values()):
        if isinstance(value, dict) and len(value) <= MOST_THINGS:
            yield list(value.values())
        elif isinstance(value, list) and len(value) == length and not all(value[at] is not None for at in (0, length // 2, -1)):
            yield [one for one in value if one is not None][:MOST_THINGS]
        within = value if isinstance(value, (list, tuple)) and len(value) < SLOTS else [value]
        for one in within if depth else ():
            if hasattr(type(one), "__getitem__") and hasattr(one, "__dict__"):
                yield from _caches(one, depth - 1)


def _bytes(thing: Any) -> int:
    """Of an array, a tensor, an image or encoded bytes, or of several together; 0 of anything else."""
    if isinstance(thing, (tuple, list)):
        return sum(map(_bytes, thing)) if len(thing) < 16 else 0
    if isinstance(thing, (bytes, bytearray)):
        return len(thing)
    with contextlib.suppress(Exception):
        return int(thing.nbytes) if hasattr(thing, "nbytes") else thing.width * thing.height * len(thing.getbands())
    return 0
