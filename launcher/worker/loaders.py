"""Counts what data loaders with workers hold ahead at most: every batch that may be on its way, each as large as the largest seen.

A trial takes few batches, and its loaders may not have filled their queues by then; a run's do. Workers hand tensors over in shared memory,
and each storage on its way is an open file of the process that takes it (PyTorch's strategy ``file_descriptor``, the one of Linux).

A forked worker shares its parent's memory until it writes there, and Python writes wherever it counts a reference: by and by the
worker has a copy of its data set's lists. In a trial it has them from the beginning. Where its batches are of so many objects that garbage
is collected again and again, a long run comes to collections of all there is, which write to every object that the parent had: that, too,
is done at once.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import mmap
import os
import weakref
from collections.abc import Iterator
from typing import Any

from ..shared.report import HELD_AHEAD
from .caches import Caches

LONG = 64
"""A list or dictionary with so many things in it is read once."""
OFTEN = 2
"""So many batches in which a worker collected garbage: it doesn't where one is of fewer than some 700 objects that can have parts."""
BESIDE = 2
"""Batches beside those that workers prefetch: the one in use, and the next, which is there before that one is let go (measured: 2)."""


class HeldAhead:
    """Watches all loaders of this process from now on."""

    def __init__(self) -> None:
        self._open: dict[int, list[int]] = {}
        """Iterator under way -> batches that may be on their way, bytes and storages of the largest."""
        self._bytes = self._storages = 0
        self._forks_for: Any = None
        """The data set whose workers are being started."""
        self._caches = Caches()
        self._in_worker = False
        self._collecting = 0
        """Batches of a worker in which it collected garbage."""

    def fact(self) -> dict[str, dict[str, int]]:
        """The fact of a report, over all loaders under way at once; empty where none has handed a tensor over, and no worker keeps any."""
        cached = self._caches.bytes()
        return {HELD_AHEAD: {"bytes": self._bytes, "storages": self._storages, "cached": cached}} if self._bytes or cached else {}

    def watch(self) -> None:
        """From now on. Only loaders with workers count: without, a batch is memory of the process like any other.

        PyTorch's own iterators are watched, below whatever else wraps a loader: who asks for a batch finds no frame of ours in between.
        """
        try:
            from torch.utils.data import dataloader
            from torch.utils.data._utils import fetch as fetching
        except ImportError:  # a torch without loaders: nothing is held ahead
            return
        kind = dataloader._BaseDataLoaderIter
        begin, following = kind.__init__, kind.__next__
        with_workers = dataloader._MultiProcessingDataLoaderIter
        fork = with_workers.__init__

        def begun(batches: Any, loader: Any) -> None:
            begin(batches, loader)
            if loader.num_workers:
                self._forks_for = loader.dataset
                with contextlib.suppress(Exception):  # whatever a loader is
                    self._caches.begun(loader)
                self._open[id(batches)] = [loader.num_workers * (loader.prefetch_factor or 2) + BESIDE, 0, 0]
                weakref.finalize(batches, self._open.pop, id(batches), None).atexit = False

        def watched(batches: Any) -> Any:
            batch = following(batches)
            if (stream := self._open.get(id(batches))) is not None:
                with contextlib.suppress(Exception):  # whatever a batch is made of, counting it ends no training
                    self._saw(stream, batch)
            return batch

        def forked(batches: Any, loader: Any) -> None:
            try:
                fork(batches, loader)
            finally:
                self._forks_for = None

        kind.__init__, kind.__next__ = begun, watched
        with_workers.__init__ = forked
        for fetcher in (fetching._MapDatasetFetcher, fetching._IterableDatasetFetcher):
            fetcher.fetch = self._followed(fetcher.fetch)
        os.register_at_fork(after_in_child=self._copy, after_in_parent=self._caches.started)

    def _copy(self) -> None:
        """In a worker that was just forked: what it would have copied of its parent's memory by the end of a long run."""
        data, self._forks_for = self._forks_for, None
        self._in_worker = data is not None
        if data is not None:
            with contextlib.suppress(Exception):  # whatever a data set is
                self._caches.in_worker(data)
                _read_through(vars(data))

    def _followed(self, fetch: Any) -> Any:
        """A fetch of a batch, after which a worker tells what it keeps, and, where it collects garbage often, collects all there is."""

        @functools.wraps(fetch)
        def fetched(fetcher: Any, *args: Any) -> Any:
            before = gc.get_stats()[0]["collections"]
            batch = fetch(fetcher, *args)
            with contextlib.suppress(Exception):  # likewise
                self._caches.fetched(fetcher.dataset, args[0])
            if self._collecting < OFTEN and self._in_worker and gc.get_stats()[0]["collections"] > before:
                self._collecting += 1
                if self._collecting == OFTEN:
                    gc.collect()
            return batch

        return fetched

    def _saw(self, stream: list[int], batch: Any) -> None:
        sizes = dict(_storages(batch))
        stream[1:] = max(stream[1], sum(sizes.values())), max(stream[2], len(sizes))
        self._bytes = max(self._bytes, sum(slots * size for slots, size, _ in self._open.values()))
        self._storages = max(self._storages, sum(slots * number for slots, _, number in self._open.values()))


def _read_through(value: Any, depth: int = 5, known: set[int] | None = None) -> None:
    """Counts a reference to everything in lists, dictionaries, and data sets within a data set. ``known``: the long ones that were read,
    which a million samples may have together (a vocabulary)."""
    known = set() if known is None else known
    if len(value) >= LONG:
        if id(value) in known:
            return
        known.add(id(value))
    for one in value.values() if isinstance(value, dict) else value:
        if depth and isinstance(one, (list, tuple, dict)):
            _read_through(one, depth - 1, known)
        elif depth and hasattr(type(one), "__getitem__") and hasattr(one, "__dict__"):
            _read_through(vars(one), depth - 1, known)


def _storages(batch: Any) -> Iterator[tuple[int, int]]:
    """(identity, bytes in whole pages) of each storage of a batch's tensors, in whatever it has them."""
    import torch

    if isinstance(batch, torch.Tensor):
        storage = batch.untyped_storage()
        yield storage.data_ptr(), -(-storage.nbytes() // mmap.PAGESIZE) * mmap.PAGESIZE
        return
    values = batch if isinstance(batch, (list, tuple)) else getattr(batch, "data", batch)  # transformers' BatchEncoding has a dictionary
    values = list(values.values()) if isinstance(values, dict) else values
    if isinstance(values, (list, tuple)) and values and not isinstance(values[0], (int, float, str, bytes)):
        for value in values:
            yield from _storages(value)
    elif hasattr(values, "__dict__"):
        yield from (found for value in vars(values).values() if isinstance(value, torch.Tensor) for found in _storages(value))
