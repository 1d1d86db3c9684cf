"""The rows that a twin trains on: fetched one by one, known by their content, and passes that end early.

A row is known by a digest from before it is collated. Where no loader of torch's is used, the rows of the model's inputs are.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .rest import Rest, seeded

ROW_SEED = 99_000
_NO_MORE = object()


@dataclass(frozen=True, kw_only=True, slots=True)
class TwinOrders:
    """The orders of a twin."""

    samples: int
    """Samples of an optimizer step, on one rank."""
    accumulation: int
    """Micro-batches of that step."""
    whole_batch: int
    """Samples of the asked optimizer step itself, on one rank."""
    part: int
    """Samples of the rung's own micro-batch."""
    against: str = ""
    """Records of the twin that this one is held against; empty: this is the first."""
    same_row: bool = False
    """True: the first row stands in the place of every other."""
    ends: bool = True
    """Passes end with a smaller step where whole ones do."""


def digest(value: Any) -> str:
    """Returns the digest of tensors, arrays, numbers and texts, however they are nested."""
    import torch

    found = hashlib.sha1(usedforsecurity=False)
    for one in torch.utils._pytree.tree_leaves(dict(value) if isinstance(value, Mapping) else value):
        if isinstance(one, torch.Tensor):
            one = one.detach().to("cpu").contiguous().reshape(-1).view(torch.uint8).numpy() if one.numel() else b""
        found.update(one.tobytes() if hasattr(one, "tobytes") else repr(one).encode())
    return found.hexdigest()[:12]


class Short:
    """The first indices of a sampler: a pass over as small a data set."""

    def __init__(self, sampler: Any, most: int) -> None:
        self.sampler, self._most = sampler, most

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(iter(self.sampler), self._most)

    def __len__(self) -> int:
        return min(len(self.sampler), self._most)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "sampler":
            raise AttributeError(name)
        return getattr(self.sampler, name)


class Rows:
    """Watches the rows of one process."""

    def __init__(self, rest: Rest, told: TwinOrders) -> None:
        self._rest, self.told = rest, told
        self._datasets: dict[int, Any] = {}
        """Identity of a data set -> it, held so that none comes twice."""
        self.drawn: dict[int, list[str]] = {}
        """Data set, numbered as they come -> digests of its rows."""
        self._at: dict[str, str] = {}
        """Data set and index in it -> digest of the row that was first there."""
        self._known: dict[int, list[int]] = {}
        """Number of a data set -> the number by which each row's draws are seeded."""
        self.whole: dict[int, tuple[int, int]] = {}
        """Data set -> samples of a whole pass, by its sampler's own length, and by its batches, each taken for a micro-batch."""
        self.ragged: dict[int, bool] = {}
        """Data set -> whether such a pass ends with a smaller optimizer step."""
        self.sharing: dict[int, int] = {}
        """Stream -> workers that share it: each gives whole batches, in turn."""
        self.trained: dict[int, None] = {}
        """Numbers of the data sets of whose batches a backward pass came."""
        self._last: int | None = None
        self._repeated: dict[int, Any] = {}
        self.inputs: list[str] = []
        """Digests of the rows of the model's inputs, where no loader gave any."""

    def number(self, dataset: Any) -> int:
        self._datasets.setdefault(id(dataset), dataset)
        return list(self._datasets).index(id(dataset))

    def backward(self) -> None:
        """A backward pass begins: the batch that came last is trained on."""
        if self._last is not None:
            self.trained[self._last] = None

    @property
    def digests(self) -> list[str]:
        """Digests of the rows that are trained on."""
        return [one for number in self.trained for one in self.drawn.get(number, ())] or self.inputs

    @property
    def unseen(self) -> str:
        """The reason why steps of other layouts are of other rows; empty if they aren't."""
        workers = max((self.sharing.get(one, 0) for one in self.trained), default=0)
        shared = f"{workers} workers share a stream of rows and give whole batches in turn, so that smaller batches have other rows"
        return shared if workers > 1 else ""

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that are written down."""
        trained = list(self.trained)
        ragged = any(self.ragged.get(one) for one in trained)
        return {
            "rows": self.digests[:4096], "at": {at: row for at, row in self._at.items() if int(at.partition("-")[0]) in trained},
            "whole": next((self.whole[one] for one in trained if one in self.whole), ()),
            "ragged": ragged and self.told.ends, "unshown": ragged and not self.told.ends,
        }  # fmt: skip

    def model_called(self, args: Any) -> None:
        """The model's inputs, where no loader has given rows: each along the first dimension."""
        import torch

        tensors = [one for one in args if isinstance(one, torch.Tensor) and one.ndim]
        if not self.drawn and len(sizes := {len(one) for one in tensors}) == 1:
            self.inputs += [digest([one[at] for one in tensors]) for at in range(sizes.pop())]

    # -- installing

    def install(self) -> None:
        """Patches torch's data loader."""
        import torch
        import torch.utils.data._utils.fetch as fetch

        loader, iterator = torch.utils.data.DataLoader, torch.utils.data.dataloader._BaseDataLoaderIter
        made, draw, rows, rest = loader.__init__, iterator.__next__, self, self._rest

        @functools.wraps(made)
        def alone(this: Any, dataset: Any, *args: Any, **kwargs: Any) -> None:
            for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout"):
                kwargs.pop(name, None)
            names = ("num_workers", "collate_fn", "pin_memory", "drop_last", "timeout", "worker_init_fn")
            kwargs |= {name: value for name, value in zip(names, args[4:], strict=False) if name != "timeout"}
            workers, kwargs["num_workers"] = kwargs.get("num_workers", 0), 0
            made(this, dataset, *args[:4], **kwargs)
            rows._begins(this, workers)

        @functools.wraps(draw)
        def drawn(this: Any) -> Any:
            rest.leave()
            batch = draw(this)
            rest.begin()
            return batch

        loader.__init__, iterator.__next__ = alone, drawn
        fetch._MapDatasetFetcher.fetch = lambda this, indices: rows._fetched(this, indices)
        fetch._IterableDatasetFetcher.__init__ = self._of_stream(fetch._IterableDatasetFetcher.__init__)

    def _begins(self, loader: Any, workers: int) -> None:
        """A loader is made: a pass takes three optimizer steps, the last of which is a smaller one where that of a whole pass is."""
        import torch

        number, batches = self.number(loader.dataset), loader.batch_sampler
        self.sharing[number] = workers if isinstance(loader.dataset, torch.utils.data.IterableDataset) else 0
        if type(batches).__name__ != "BatchSampler" or isinstance(batches.sampler, Short):
            return
        with contextlib.suppress(TypeError, NotImplementedError):
            ranks = int(os.environ.get("WORLD_SIZE", 1))
            shared = 1 if hasattr(batches.sampler, "num_replicas") else ranks  # else dealt out later
            step = self.told.samples  # unless each rank takes the batch of all of them
            step = min(max(batches.batch_size * self.told.accumulation, step), step * ranks)
            asked = self.told.whole_batch * step // self.told.samples
            whole = len(batches.sampler)
            self.whole[number] = whole, len(batches) * (self.told.samples // self.told.accumulation)
            left = whole // shared % asked if whole > asked * shared else 0
            if batches.drop_last:  # whole micro-batches, which the large batch's loader drops
                left -= left % (self.told.part * step // self.told.samples)
            self.ragged[number] = bool(left)
            part = min(max(round(step * left / asked), 1), step - 1) if left and self.told.ends else step
            batches.sampler = Short(batches.sampler, (2 * step + part) * shared)

    def _fetched(self, fetcher: Any, indices: Any) -> Any:
        """A batch of a data set that has a length, row by row."""
        number = self.number(fetcher.dataset)
        if not fetcher.auto_collation:
            self._last = None
            return fetcher.collate_fn(fetcher.dataset[indices])
        return self._collated(fetcher.collate_fn, [self._row(fetcher.dataset, number, index) for index in indices], number)

    def _row(self, dataset: Any, number: int, index: Any) -> Any:
        index = self._repeated.setdefault(number, index) if self.told.same_row else index
        several = getattr(dataset, "__getitems__", None)
        known = index if isinstance(index, int) else self._position(number)
        with seeded(ROW_SEED + known):
            row = several([index])[0] if several else dataset[index]
        self._added(number, row, known)
        self._at.setdefault(f"{number}-{index}", self.drawn[number][-1])
        return row

    def _position(self, number: int) -> int:
        return 0 if self.told.same_row else len(self.drawn.get(number, ()))

    def _added(self, number: int, row: Any, known: int) -> Any:
        self._known.setdefault(number, []).append(known)
        self.drawn.setdefault(number, []).append(digest(row))
        self._last = number
        return row

    def _collated(self, collate: Callable[..., Any], data: list[Any], number: int) -> Any:
        """Puts rows together so that what is drawn meanwhile doesn't hang on how many they are."""
        self._rest.rows = self._known[number][-len(data) :]
        self._rest.begin(collating=True)
        try:
            return collate(data)
        finally:
            self._rest.leave()

    def _of_stream(self, made: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(made)
        def begun(this: Any, *args: Any, **kwargs: Any) -> None:
            made(this, *args, **kwargs)
            if this.auto_collation:
                collate, number = this.collate_fn, self.number(this.dataset)
                this.dataset_iter = self._one_by_one(this.dataset_iter, number)
                this.collate_fn = lambda data: self._collated(collate, data, number)

        return begun

    def _one_by_one(self, inner: Iterator[Any], number: int) -> Iterator[Any]:
        while True:
            known = self._position(number)
            with seeded(ROW_SEED + known):
                row = next(inner, _NO_MORE)
            if row is _NO_MORE:
                return
            yield self._added(number, self._repeated.setdefault(number, row) if self.told.same_row else row, known)
