"""Passes over a data loader, seen from outside: which batch is being trained, how many samples it has, whether a pass ends with it.

Beside ``accumulate``; needs nothing but torch's loaders, which are handed in.
"""

from __future__ import annotations

import dis
import inspect
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any


class Pass:
    """An iterator over one pass of a data loader, which knows how far it is."""

    def __init__(self, loader: Any, batches: Iterator[Any], *, every: int, count: int | None, drawn: Callable[[Pass], None]) -> None:
        """``every``: micro-batches in an optimizer step; ``count``: batches of the pass, where that is known; ``drawn`` is told of each."""
        self.loader, self._batches, self._every, self.count, self._drawn = loader, batches, every, count, drawn
        self.position = -1
        self.trained = -1
        """The position of the last batch that a backward pass came of."""
        self.weight = 1.0
        """Samples of this batch, as a part of a whole micro-batch."""
        self.last = self.ended = False
        self._ahead: list[Any] = []
        self.size = samples(loader)
        self.in_a_loop = True

    @property
    def completes_a_step(self) -> bool:
        """True if the batch that was drawn last is the last one of an optimizer step."""
        return self.last or (self.position + 1) % self._every == 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._batches, name)

    def __next__(self) -> Any:
        if self.position < 0:
            self.in_a_loop = in_a_loop(sys._getframe(1))
        if self.count is not None and self.trained >= 0 and self.position + 1 >= self._whole():
            for _ in self._batches:  # the large batches' loader drops these, too, and leaves its sampler at its end
                pass
            self.ended = True
            raise StopIteration
        try:
            batch = self._draw()
        except StopIteration:
            self.ended = True
            raise
        self.position += 1
        self.weight = self._part(batch)
        self._drawn(self)
        return batch

    def _draw(self) -> Any:
        if self.count is not None:
            batch = next(self._batches)
            self.last = self.position + 2 >= self._whole()
            return batch
        batch = self._ahead.pop() if self._ahead else next(self._batches)
        try:
            self._ahead.append(next(self._batches))  # a loader without a length: whether this is its last batch shows in the next
        except StopIteration:
            self.last = True
        return batch

    def _whole(self) -> int:
        """Batches of this pass that belong to whole large batches, where the loader drops what doesn't."""
        assert self.count is not None
        return self.count // self._every * self._every if drops_last(self.loader) else self.count

    def _part(self, batch: Any) -> float:
        if self.size is None or not self.last:
            return 1.0
        size = leading(batch)
        return size / self.size if size is not None and 0 < size < self.size else 1.0


class ToldLengths:
    """Tells a script its loaders' lengths."""

    def __init__(self, every: int, note: Callable[[str], None]) -> None:
        self._every, self._note = every, note
        self._begun: weakref.WeakSet[Any] = weakref.WeakSet()
        self._own = 0
        """Set while we ask for a length ourselves."""

    def begins(self, loader: Any) -> None:
        """A pass over it begins."""
        self._begun.add(loader)

    def of(self, loader: Any) -> int | None:
        """Batches of one pass, or None where nobody knows."""
        self._own += 1
        try:
            return len(loader)
        except (TypeError, NotImplementedError):
            return None
        finally:
            self._own -= 1

    def told(self, loader: Any, count: int, frame: Any) -> int:
        """Returns the length that ``frame``'s code is told: optimizer steps, of a loader that shuffles, until its first pass begins."""
        asks, sampler = frame.f_code.co_filename, getattr(loader, "sampler", None)
        shuffles = type(sampler).__name__.endswith("RandomSampler") or getattr(sampler, "shuffle", False)
        if self._own or loader in self._begun or not shuffles or "tqdm" in asks or os.path.dirname(asks) == _OURS:
            return count
        self._note("until its first pass, the length of the shuffled loader is told in optimizer steps")
        return count // self._every if drops_last(loader) else -(-count // self._every)


def leading(batch: Any) -> int | None:
    """The first dimension of the first tensor in a batch."""
    if hasattr(batch, "shape") and getattr(batch, "ndim", False):
        return int(batch.shape[0])
    inside: Any = batch.values() if hasattr(batch, "values") else batch if isinstance(batch, (list, tuple)) else ()
    return next((size for one in inside if (size := leading(one)) is not None), None)


def samples(loader: Any) -> int | None:
    """Samples of a whole batch, where the loader or its batch sampler says so."""
    said = (getattr(loader, "batch_size", None), getattr(getattr(loader, "batch_sampler", None), "batch_size", None))
    return next((size for size in said if isinstance(size, int)), None)


def drops_last(loader: Any) -> bool:
    return bool(getattr(loader, "drop_last", False) or getattr(getattr(loader, "batch_sampler", None), "drop_last", False))


_OURS = os.path.dirname(__file__)
_LIBRARIES = ("site-packages", "dist-packages", os.path.dirname(os.__file__))


def in_a_loop(frame: Any) -> bool:
    """Tells whether a ``for`` loop asks for the batches, or a library that knows how a pass ends; through generators, whoever asks them."""
    while frame is not None:
        code = frame.f_code
        looped = 0 <= frame.f_lasti < len(code.co_code) and dis.opname[code.co_code[frame.f_lasti]] == "FOR_ITER"
        if not looped and not (any(part in code.co_filename for part in _LIBRARIES) and "StopIteration" in code.co_names):
            return False
        if not code.co_flags & inspect.CO_GENERATOR:
            return True
        frame = frame.f_back  # a generator that passes the batches on
    return True


_WRAPS_LOADERS = ("lightning.fabric.utilities.data", "lightning_fabric.utilities.data")


def maker(frame: Any, loader: Any) -> Any:
    """The frame that makes a loader, behind the ``__init__`` of a class derived from it, and behind what others put around that
    (Lightning, autofit)."""
    while frame.f_back is not None and (_is_init_of(frame, loader) or frame.f_globals.get("__name__") in _WRAPS_LOADERS):
        frame = frame.f_back
    return frame


def _is_init_of(frame: Any, loader: Any) -> bool:
    first = next(iter(frame.f_code.co_varnames[: frame.f_code.co_argcount]), "")
    return frame.f_locals.get(first) is loader


def is_made_at(place: str, frame: Any, loader: Any) -> bool:
    """Tells whether ``frame`` makes the loader in the source's line ``train.py:31``, which is the one where its call begins."""
    file, _, line = place.rpartition(":")
    frame = maker(frame, loader)
    return bool(os.path.basename(frame.f_code.co_filename) == file and frame.f_lineno == int(line))
