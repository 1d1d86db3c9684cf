"""Counts what data loaders with workers hold ahead at most: every batch that may be on its way, each as large as the largest seen.

A trial takes few batches, and its loaders may not have filled their queues by then; a run's do. Workers hand tensors over in shared memory.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import weakref
from collections.abc import Iterator
from typing import Any

from ..common.report import HELD_AHEAD

BESIDE = 2
"""Batches beside those that workers prefetch: the one in use, and the next, which is there before that one is let go (measured: 2)."""


class HeldAhead:
    """Watches all loaders of this process from now on."""

    def __init__(self) -> None:
        self._open: dict[int, list[int]] = {}
        """Iterator under way -> batches that may be on their way, bytes of the largest."""
        self._bytes = 0

    def fact(self) -> dict[str, int]:
        """The fact of a report, over all loaders under way at once; empty where none has handed a tensor over."""
        return {HELD_AHEAD: self._bytes} if self._bytes else {}

    def watch(self) -> None:
        """Watches from now on, only loaders with workers: without, a batch is memory of the process like any other.

        PyTorch's own iterators are watched, below whatever else wraps a loader: who asks for a batch finds no frame of ours in between.
        """
        try:
            from torch.multiprocessing import queue
            from torch.utils.data import dataloader, get_worker_info
        except ImportError:  # a torch without loaders: nothing is held ahead
            return
        kind, way = dataloader._BaseDataLoaderIter, queue.Queue.__base__  # Python's own
        begin, following, tell = kind.__init__, kind.__next__, way._on_queue_feeder_error

        def begun(batches: Any, loader: Any) -> None:
            begin(batches, loader)
            if loader.num_workers:
                self._open[id(batches)] = [loader.num_workers * (loader.prefetch_factor or 2) + BESIDE, 0]
                weakref.finalize(batches, self._open.pop, id(batches), None).atexit = False

        def watched(batches: Any) -> Any:
            batch = following(batches)
            if (stream := self._open.get(id(batches))) is not None:
                with contextlib.suppress(Exception):  # whatever a batch is made of, counting it ends no training
                    stream[1] = max(stream[1], sum(dict(_storages(batch)).values()))
                    self._bytes = max(self._bytes, sum(slots * size for slots, size in self._open.values()))
            return batch

        def lost(error: Exception, thing: Any) -> None:
            tell(error, thing)
            if get_worker_info() is not None:  # no room in shared memory: the loader would wait for that batch for ever
                os._exit(1)

        kind.__init__, kind.__next__ = begun, watched
        way._on_queue_feeder_error = staticmethod(lost)


def _storages(batch: Any) -> Iterator[tuple[int, int]]:
    """Yields (identity, bytes in whole pages) of each storage of a batch's tensors, in whatever it has them."""
    import torch
    from torch.utils import _pytree

    for leaf in _pytree.tree_flatten(batch)[0]:
        if isinstance(leaf, torch.Tensor):
            storage = leaf.untyped_storage()
            yield storage.data_ptr(), -(-storage.nbytes() // mmap.PAGESIZE) * mmap.PAGESIZE
        elif isinstance(inner := getattr(leaf, "data", None), dict):  # transformers' BatchEncoding
            yield from _storages(inner)
        elif hasattr(leaf, "__dict__"):
            yield from _storages([value for value in vars(leaf).values() if isinstance(value, torch.Tensor)])
