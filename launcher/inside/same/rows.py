"""The rows that a twin trains on: told by their content, taken one by one, and a pass that ends early.

A row is fetched by itself under a seed that its number gives, so that augmentation doesn't hang on the batch; it is known by a digest from
before it is collated. Where no loader of torch's is used, the rows of the model's inputs are.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from .collation import Collation, bare, collating, pads_left
from .collation import TakenRows as Collated
from .first import First
from .still import AtRest, seed, seeded
from .told import Told

_MOST = 4096
"""Rows that are written down."""
_ROW_SEED = 99_000
_NO_MORE = object()


def digest(value: Any) -> str:
    """Of tensors, arrays, numbers and texts, however they are nested."""
    import torch

    found = hashlib.sha1(usedforsecurity=False)

    def add(one: Any) -> None:
        if isinstance(one, torch.Tensor):
            plain = one.detach().to("cpu").reshape(-1).clone(memory_format=torch.contiguous_format)
            found.update(plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
        elif hasattr(one, "items"):
            for key in sorted(one, key=str):
                add(key)
                add(one[key])
        elif isinstance(one, (list, tuple)):
            for part in one:
                add(part)
        elif hasattr(one, "tobytes"):
            found.update(one.tobytes())
        elif isinstance(one, (int, float, str, bool, bytes, type(None))):
            found.update(repr(one).encode())

    add(value)
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
    """What is seen of the rows of one process."""

    def __init__(self, told: Told, rest: AtRest) -> None:
        self._told, self._rest = told, rest
        self._datasets: list[Any] = []
        """Held, so that no identity comes twice."""
        self.drawn: dict[int, list[tuple[str, str]]] = {}
        """Data set, numbered as they come -> (index, digest) of each row."""
        self._known: dict[int, list[int]] = {}
        """Likewise -> the number by which each row is known."""
        self.counts: dict[int, int] = {}
        self.whole: dict[int, int] = {}
        """Data set -> samples of a whole pass, by its loader's own length."""
        self.passes: dict[int, int] = {}
        self.trained: set[int] = set()
        """Those of whose batches a backward pass came."""
        self.ragged: frozenset[int] = frozenset()
        """Data sets whose passes end with a smaller optimizer step."""
        self.sharing: dict[int, int] = {}
        """Data set -> workers that share it, where it is a stream: each gives whole batches, in turn."""
        self._last: int | None = None
        self._repeated: dict[int, Any] = {}
        self._first, self._told_sites = First(told.against), False
        self.sites: dict[str, str] = {}
        """Line of code that draws in a collate function -> whose its draws are."""
        self.inputs: list[str] = []
        """Digests of the rows of the model's inputs, where no loader gave any."""

    def number(self, dataset: Any) -> int:
        for at, known in enumerate(self._datasets):
            if known is dataset:
                return at
        self._datasets.append(dataset)
        return len(self._datasets) - 1

    def add(self, number: int, index: Any, row: Any, *, known: int) -> None:
        self.counts[number] = self.counts.get(number, 0) + 1
        self._known.setdefault(number, []).append(known)
        kept = self.drawn.setdefault(number, [])
        if len(kept) < _MOST:
            kept.append((str(index), digest(row)))
        self._last = number

    def backward(self) -> None:
        """A backward pass begins: the batch that came last is trained on."""
        if self._last is not None:
            self.trained.add(self._last)

    @property
    def seen(self) -> int:
        """Rows so far of what is trained on."""
        return sum(self.counts[number] for number in self.trained) or len(self.inputs)

    def shorten(self, loader: Any) -> None:
        """Its batches are made of the first rows that its sampler gives, the last of which may be a smaller one."""
        batches = loader.batch_sampler
        if not self.ends_early(loader) or type(batches).__name__ != "BatchSampler" or isinstance(batches.sampler, Short):
            return
        number = self.number(loader.dataset)
        with contextlib.suppress(TypeError, NotImplementedError):
            self.whole.setdefault(number, len(batches.sampler) * _sharing(batches.sampler))
            whole, asked = self.whole[number], self._told.whole_batch
            left = whole % asked if 0 < asked < whole else 0  # fewer: it has been made small
            self.ragged = self.ragged | {number} if left else self.ragged
        batches.sampler = Short(batches.sampler, -(-self._told.pass_samples // _sharing(batches.sampler)))

    def ends_early(self, loader: Any) -> bool:
        """Whether a pass over it is cut. One that keeps its iterator for all passes bears no end."""
        place = getattr(type(loader).__iter__, "__module__", "")
        return bool(self._told.pass_samples) and place.split(".")[0] in ("torch", "accelerate", __name__.split(".")[0])

    # -- installing

    def install(self) -> None:
        """Patches torch's data loader, which has just been imported."""
        import torch
        import torch.utils.data._utils.fetch as fetch

        loader, iterator = torch.utils.data.DataLoader, torch.utils.data.dataloader._BaseDataLoaderIter
        self._loader(loader)
        self._iterator(iterator)
        rows = self

        def of_map(this: Any, indices: Any) -> Any:
            return rows.fetched(this, indices)

        fetch._MapDatasetFetcher.fetch = of_map
        fetch._IterableDatasetFetcher.fetch = self._of_iterable(fetch._IterableDatasetFetcher.fetch)

    def _loader(self, loader: Any) -> None:
        from torch.utils.data import IterableDataset

        made, length, begin, rows = loader.__init__, loader.__len__, loader.__iter__, self

        @functools.wraps(made)
        def alone(this: Any, dataset: Any, *args: Any, **kwargs: Any) -> None:
            for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout"):
                kwargs.pop(name, None)
            if len(args) > 4:  # num_workers and what comes after it
                names = ("collate_fn", "pin_memory", "drop_last", "timeout", "worker_init_fn")
                kwargs |= {name: value for name, value in zip(names, args[5:], strict=False) if name != "timeout"}
            workers = kwargs.get("num_workers", args[4] if len(args) > 4 else 0)
            kwargs["num_workers"] = 0
            made(this, dataset, *args[:4], **kwargs)
            if isinstance(dataset, IterableDataset):
                rows.sharing[rows.number(dataset)] = workers
            rows.shorten(this)

        @functools.wraps(length)
        def short(this: Any) -> int:
            whole = int(length(this))
            size = _batch_size(this)
            if size is None or not rows.ends_early(this):
                return whole
            rows.whole.setdefault(rows.number(this.dataset), whole * size)
            return min(whole, max(-(-rows._told.pass_samples // size), 1))

        @functools.wraps(begin)
        def begun(this: Any) -> Any:
            rows._rest.leave()
            return begin(this)

        loader.__init__, loader.__len__, loader.__iter__ = alone, short, begun

    def _iterator(self, iterator: Any) -> None:
        made, draw, rows = iterator.__init__, iterator.__next__, self

        @functools.wraps(made)
        def begun(this: Any, loader: Any) -> None:
            made(this, loader)
            number = rows.number(loader.dataset)
            size = _batch_size(loader)
            this._autofit_left = max(-(-rows._told.pass_samples // size), 1) if size and rows.ends_early(loader) else None
            with contextlib.suppress(TypeError, NotImplementedError):
                len(loader)  # which notes the whole length
            rows.passes[number] = rows.passes.get(number, 0) + 1

        @functools.wraps(draw)
        def drawn(this: Any) -> Any:
            rows._rest.leave()
            left = getattr(this, "_autofit_left", None)
            if left == 0:
                raise StopIteration
            batch = draw(this)
            if left is not None:
                this._autofit_left = left - 1
            rows._rest.begin()
            return batch

        iterator.__init__, iterator.__next__ = begun, drawn

    def fetched(self, fetcher: Any, indices: Any) -> Any:
        """A batch of a data set that has a length, row by row."""
        number = self.number(fetcher.dataset)
        if not fetcher.auto_collation:
            self._last = None
            return fetcher.collate_fn(fetcher.dataset[indices])
        data = [self._row(fetcher.dataset, number, index) for index in indices]
        return self._collated(fetcher.collate_fn, data, number)

    def _collated(self, collate: Callable[..., Any], data: list[Any], number: int) -> Any:
        """The batch of the rows that have just been fetched; what is drawn while it is put together belongs to them."""
        if self._first and not self._told_sites:
            self.sites, self._told_sites = self._first.sites(), True
        collate, rows = bare(collate, data)
        begin = self.counts.get(number, 0) - len(rows)
        numbers = [self._told.same_row or known for known in self._known[number][begin:]]
        with seeded(_ROW_SEED):
            collation = Collation(numbers, sites=self.sites, seed=seed, left=pads_left(collate))
            with collating(self._rest, collation):
                batch = collate(Collated(rows, collation))
        return list(batch) if isinstance(batch, Collated) else batch

    def _row(self, dataset: Any, number: int, index: Any) -> Any:
        at = self.counts.get(number, 0)
        if self._told.same_row:
            index = self._repeated.setdefault(number, 0 if self._told.by_index and isinstance(index, int) else index)
        elif at < len(self._told.rows) and number == self._told.rows_of:
            index = int(self._told.rows[at])
        known = index if self._told.by_index and isinstance(index, int) and index >= 0 else at
        with seeded(_ROW_SEED + (self._told.same_row or known)):
            several = getattr(dataset, "__getitems__", None)
            row = several([index])[0] if several else dataset[index]
        self.add(number, index, row, known=known)
        return row

    def _of_iterable(self, fetch: Callable[..., Any]) -> Callable[..., Any]:
        rows = self

        @functools.wraps(fetch)
        def fetched(this: Any, indices: Any) -> Any:
            if not this.auto_collation:
                rows._last = None
                return fetch(this, indices)
            inner, collate, number = this.dataset_iter, this.collate_fn, rows.number(this.dataset)
            this.dataset_iter = rows._one_by_one(inner, number)
            this.collate_fn = lambda data: rows._collated(collate, data, number)
            try:
                return fetch(this, indices)
            finally:
                this.dataset_iter, this.collate_fn = inner, collate

        return fetched

    def _one_by_one(self, inner: Iterator[Any], number: int) -> Iterator[Any]:
        while True:
            if self._told.same_row and number in self._repeated:
                row = self._repeated[number]
            else:
                with seeded(_ROW_SEED + self.counts.get(number, 0)):
                    row = next(inner, _NO_MORE)
                if row is _NO_MORE:
                    return
                self._repeated.setdefault(number, row)
            self.add(number, "", row, known=self.counts.get(number, 0))
            yield row

    def model_called(self, args: Any, kwargs: Any) -> None:
        """The model's inputs, where no loader has given rows: each along the first dimension."""
        import torch

        if self.counts or len(self.inputs) >= _MOST or not torch.is_grad_enabled():
            return
        tensors = [one for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor) and one.ndim]
        sizes = {len(one) for one in tensors}
        if len(sizes) == 1:
            self.inputs += [digest([one[at] for one in tensors]) for at in range(sizes.pop())]


def _sharing(sampler: Any) -> int:
    """Ranks among which a sampler divides its rows."""
    said = getattr(sampler, "num_replicas", 1)
    return said if isinstance(said, int) and said > 0 else 1


def _batch_size(loader: Any) -> int | None:
    """Samples of a batch, where the loader or its sampler says so."""
    said = (getattr(loader, "batch_size", None), getattr(getattr(loader, "batch_sampler", None), "batch_size", None))
    return next((size for size in said if isinstance(size, int) and size > 0), None)
