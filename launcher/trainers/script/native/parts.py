"""Takes each batch that a script's own batch sampler makes in parts, and knows which part ends it. Beside ``accumulate``.

For batches that hold as many samples as make up so many tokens (frames, seconds): their sampler is asked as ever, once for each batch, and
the rows that it names come one part after another. A batch with fewer rows than parts comes row by row.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from .loaders import Pass

BATCHES_OF_A_PASS = 4
"""Of a pass in which only the first rows of each batch are taken."""


class GivenPart(NamedTuple):
    """One that was given."""

    weight: float
    """Its rows, in parts of their batch of which there are as many."""
    ends: bool
    """It is its batch's last."""


class Parted:
    """The indices of one loader's batches, in parts."""

    def __init__(self, sampler: Any, parts: int, rows: int = 0) -> None:
        """``rows``: of each batch that has so many, only the first ones are taken; 0: all."""
        self._sampler, self._parts, self._rows = sampler, parts, rows
        self.given: list[GivenPart] = []
        """Of the pass that is under way, in their order."""

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Sequence[Any]]:
        return self.of(iter(self._sampler))

    def of(self, batches: Iterable[Any]) -> Iterator[Sequence[Any]]:
        """The parts of batches that its sampler has begun to give."""
        self.given = given = []
        for batch in self._taken(map(list, batches)):
            parts = list(_parts(batch, self._parts))
            for number, part in enumerate(parts, start=1):
                given.append(GivenPart(len(part) * len(parts) / len(batch), number == len(parts)))
                yield part

    def _taken(self, batches: Iterable[list[Any]]) -> Iterator[list[Any]]:
        if not self._rows:
            return filter(None, batches)
        return itertools.islice((batch[: self._rows] for batch in batches if len(batch) >= self._rows), BATCHES_OF_A_PASS)


def _parts(batch: list[Any], number: int) -> Iterator[list[Any]]:
    """As many rows in each as can be, one after another; none is empty."""
    number = min(number, len(batch))
    rows, more = divmod(len(batch), number)
    ends = [(at + 1) * rows + min(at + 1, more) for at in range(number)]
    return (batch[begin:end] for begin, end in zip([0, *ends], ends, strict=False))


class Parts:
    """Those of one process."""

    def __init__(self, number: int, rows: int = 0) -> None:
        self.number, self._rows = number, rows
        self._last: Parted | None = None
        self._modes: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        """Module whose mode the script has set -> whether it trains."""
        self._setting = False

    @property
    def given(self) -> list[GivenPart]:
        """Of the training pass that was begun last."""
        return self._last.given if self._last is not None else []

    def install(self, torch: Any) -> None:
        """Patches torch, which has just been imported."""
        from torch.utils.data.dataloader import _BaseDataLoaderIter

        _BaseDataLoaderIter.__init__ = self._begun(_BaseDataLoaderIter.__init__, torch)
        torch.nn.Module.train = self._told(torch.nn.Module.train)

    def _begun(self, make: Callable[..., None], torch: Any) -> Callable[..., None]:
        def begun(this: Any, loader: Any) -> None:
            make(this, loader)
            if own_batches(loader) and torch.is_grad_enabled() and (not self._modes or any(self._modes.values())):
                self._last = this._index_sampler = Parted(this._index_sampler, self.number, self._rows)
                this._sampler_iter = self._last.of(this._sampler_iter)

        return begun

    def _told(self, train: Callable[..., Any]) -> Callable[..., Any]:
        def told(this: Any, mode: bool = True) -> Any:
            outermost, self._setting = not self._setting, True
            try:
                return train(this, mode)
            finally:
                self._setting = not outermost
                if outermost:
                    self._modes[this] = bool(mode)

        return told


class PassInParts(Pass):
    """An iterator over one pass whose batches come in parts, each a micro-batch."""

    def __init__(self, loader: Any, batches: Iterator[Any], *, parts: Parts, drawn: Callable[[Pass], None]) -> None:
        super().__init__(loader, batches, every=parts.number, count=None, drawn=drawn)
        self._made_by = parts
        self._given: list[GivenPart] | None = None
        """Of this pass, from its first batch on."""

    @property
    def _part_in_hand(self) -> GivenPart | None:
        return self._given[self.position] if self._given is not None and self.position < len(self._given) else None

    @property
    def never_parted(self) -> bool:
        return self._part_in_hand is None

    @property
    def sizes_unknown(self) -> bool:
        return False

    @property
    def completes_a_step(self) -> bool:
        part = self._part_in_hand
        return super().completes_a_step if part is None else part.ends  # none: a batch that a trial gives again

    def _draw(self) -> Any:
        try:
            batch = next(self._batches)
        except StopIteration:
            self.last = True
            raise
        self._given = self._made_by.given if self._given is None else self._given
        return batch

    def _part(self, batch: Any) -> float:
        part = self._part_in_hand
        return 1.0 if part is None else part.weight


def own_batches(loader: Any) -> bool:
    """Whether a batch sampler of the script's makes the loader's batches, so that the loader itself knows no batch size."""
    sampler = getattr(loader, "batch_sampler", None)
    return getattr(loader, "batch_size", None) is None and sampler is not None and type(sampler).__name__ != "BatchSampler"
