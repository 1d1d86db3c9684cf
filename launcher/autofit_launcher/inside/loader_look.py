"""Looks at what a loader gives, in a forked child for some seconds, data alone: items of the data set, then batches of the loader itself
(streams, sizes that are drawn in a collate function, batches of drawn size, samplers that make batches of their own).

Nothing that the data opens, caches, draws or reads on is left in the script's own process. The largest batch is kept in a file.
"""

from __future__ import annotations

import contextlib
import copy
import fcntl
import gc
import itertools
import json
import os
import select
import stat
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from .lifeline import die_with_parent, kill

if TYPE_CHECKING:
    from .part import TakingPart

SAMPLE_ITEMS, SAMPLE_BATCHES = 2000, 400
SECONDS, AT_LEAST_S, STREAM_S = 4.0, 3.0, 2.0
"""Seconds for a look; for batches at least, however long the items took; at least for a stream that doesn't end."""
TELL_S = 0.1
NO_BATCH = "no batch of it could be looked at"
RANKED, TRIED = 1000, 4
"""Batches of a sampler of the script's own that are ranked by what is known of their items; those of them that are looked at first."""
ESTIMATED = 3
"""A sampler that has more batches than so many times its length, and ``RANKED`` more, has no end."""


def length(thing: Any) -> int:
    """len(), or 0 where there is none."""
    try:
        return len(thing)
    except (TypeError, NotImplementedError):
        return 0


@dataclass(kw_only=True, slots=True)
class LoaderLook:
    """The findings of a child at a loader."""

    sizes: list[tuple[int, int]] = field(default_factory=list)
    """Items with their sizes."""
    number: int = 0
    """Number of batches."""
    least: int = 0
    most: int = 0
    """Elements of the largest batch."""
    file: str = ""
    """The largest batch."""
    drawn: tuple[int, int] = (0, 0)
    """Least and most rows of a batch, where no number of rows is that of most."""
    ended: bool = False
    """All batches of a pass were seen."""
    endless: bool = False
    """The loader's sampler begins anew by itself (YOLOv5's, YOLOX's)."""
    failed: str = ""

    @property
    def order(self) -> list[int]:
        """Items, longest first; none where all have one size."""
        varied = len({size for _, size in self.sizes}) > 1
        return [index for index, _ in sorted(self.sizes, key=lambda item: -item[1])] if varied else []

    @property
    def varied(self) -> bool:
        """True if batches differ in size."""
        return self.least < self.most

    def told(self, total: int) -> str:
        """Says in words, with numbers, what was seen. ``total``: items there are."""
        how = "longest first" if self.order else "the largest batch first" if self.varied else "as drawn"
        said, sizes = [], [size for _, size in self.sizes]
        if sizes:
            said.append(f"{len(sizes):,} of {total:,} items sampled, sizes from {min(sizes)} to {max(sizes)}")
        if self.number:
            of = " (all of a pass)" if self.ended else ""
            said.append(f"{self.number:,} batches looked at{of}, from {self.least:,} to {self.most:,} elements")
        return f"{how}: {'; '.join([*said, *filter(None, [self.failed])]) or NO_BATCH}"


def looked(loader: Any, part: TakingPart) -> LoaderLook:
    """Looks at a loader in a child. ``part``: this process's in a trial; the child takes none, and what it needs isn't counted."""
    import torch

    folder = tempfile.mkdtemp(prefix="largest-", dir=part.settings.records)  # below the trial's scratch folder
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            part.leave()
            os.setpgid(0, 0)
            die_with_parent()
            _apart()
            torch.set_num_threads(1)  # as data loader workers do: a forked child must not meet the parent's threads
            _Child(loader, writer, folder).look()
        finally:
            os._exit(0)
    assert part.recorder is not None
    part.recorder.leave_out(pid)
    os.close(writer)
    told, deadline = b"", time.monotonic() + SECONDS + AT_LEAST_S + 2.0
    while select.select([reader], [], [], max(0.0, deadline - time.monotonic()))[0] and (chunk := os.read(reader, 65536)):
        told += chunk
    os.close(reader)
    kill(pid)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
    lines = [line for line in told.splitlines(keepends=True) if line.endswith(b"\n")]
    return LoaderLook(**json.loads(lines[-1])) if lines else LoaderLook()


def _apart() -> None:
    """Lets alone what this process shares with its parent: files that are read keep their places there, nothing is printed, and objects
    that are the parent's (iterators with workers) don't come to their end here."""
    gc.freeze()
    for number in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.fstat(number).st_mode) and fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
                again = os.open(f"/proc/self/fd/{number}", os.O_RDONLY)
                os.lseek(again, os.lseek(number, 0, os.SEEK_CUR), os.SEEK_SET)
                os.dup2(again, number)
                os.close(again)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


class _Child:
    """The child's work."""

    def __init__(self, loader: Any, writer: int, folder: str) -> None:
        self._loader, self._writer, self._folder = loader, writer, folder
        self._began, self._told = time.monotonic(), 0.0
        self._look = LoaderLook()
        self._collate, self._rows = loader.collate_fn, 0
        self._rows_of: Counter[int] = Counter()
        self._items: Any = None
        """The items of the first batch."""

    def _tell(self) -> None:
        self._told = time.monotonic()
        os.write(self._writer, f"{json.dumps(asdict(self._look))}\n".encode("ascii"))

    def look(self) -> None:
        try:
            if not streams(self._loader):
                self._look_at_items()
            if not _plain(self._loader) or self._look.order or not self._look.sizes:
                self._look.failed = NO_BATCH
                self._tell()
                self._look_at_batches()
        except Exception as error:
            self._look.failed = f"{self._look.failed} ({type(error).__name__}: {str(error)[:200]})".lstrip()
        self._tell()

    def _look_at_items(self) -> None:
        """Looks at evenly spread items, a coarse sample first, so that any beginning of it is spread too."""
        dataset, until = self._loader.dataset, self._began + SECONDS / (1 if _plain(self._loader) else 2)
        total = length(dataset)
        wanted = min(total, SAMPLE_ITEMS)
        even = [index * total // wanted for index in range(wanted)]
        with contextlib.suppress(Exception):  # its keys aren't numbers
            for index in [*even[::16], *(index for at, index in enumerate(even) if at % 16)]:
                if time.monotonic() > until:
                    return
                self._look.sizes.append((index, item_size(dataset[index])))

    def _look_at_batches(self) -> None:
        from torch.utils.data.dataloader import _SingleProcessDataLoaderIter as Batches

        loader, least, until = self._loader, 0.0, max(self._began + SECONDS, time.monotonic() + AT_LEAST_S)
        if streams(loader):
            least = self._began + STREAM_S
        elif loader.batch_sampler is not None:
            loader.__dict__["batch_sampler"] = BatchesFirst(loader.batch_sampler, self._ranked(loader.batch_sampler))
        loader.__dict__.update(num_workers=0, timeout=0, pin_memory=False, persistent_workers=False, prefetch_factor=None)
        loader.collate_fn = self._collated
        drawing, again, nothing, drawn, of_pass, iterator = 0.0, 0.0, object(), 0, 0, Batches(loader)
        while (began := time.monotonic()) < until and (drawn < SAMPLE_BATCHES or began < least):
            if self._items is not None and again < drawing:  # the collate function alone: reading other items may take long
                self._measure(self._collate(copy.deepcopy(self._items)), again=True)
                again += time.monotonic() - began
                continue
            batch = next(iterator, nothing)
            drawing += time.monotonic() - began
            if batch is not nothing:
                drawn, of_pass = drawn + 1, of_pass + 1
                self._measure(batch)
            elif of_pass:
                self._look.ended, least, of_pass, iterator = True, 0.0, 0, Batches(loader)
            else:  # it can be asked once
                return

    def _collated(self, items: Any) -> Any:
        """Stands for the loader's collate function."""
        if self._loader.batch_sampler is not None:
            self._rows = length(items)
            if self._items is None and not _known(self._collate):
                self._items = copy.deepcopy(items)
        return self._collate(items)

    def _measure(self, batch: Any, *, again: bool = False) -> None:
        look, elements, rows = self._look, item_size(batch), self._rows or rows_of(batch) or 1
        if not again:
            self._rows_of[rows] += 1
            usual = self._rows_of.most_common(1)[0][1] * 2 > self._rows_of.total()
            look.drawn = (0, 0) if usual else (min(self._rows_of), max(self._rows_of))
        if elements > look.most:
            self._keep(batch, elements)
        look.number, look.least, look.failed = look.number + 1, min(look.least or elements, elements), ""
        if time.monotonic() > self._told + TELL_S:
            self._tell()

    def _keep(self, batch: Any, elements: int) -> None:
        """Keeps a batch as the largest so far; of tensors that are parts of larger ones the parts alone."""
        import torch
        from torch.utils import _pytree

        before, file = self._look.file, os.path.join(self._folder, f"{self._look.number}.pt")
        alone = lambda part: part.clone() if part.untyped_storage().nbytes() > part.nbytes else part  # noqa: E731
        torch.save(_pytree.tree_map_only(torch.Tensor, alone, batch), file)
        self._look.file, self._look.most = file, elements
        self._tell()
        if before:
            os.unlink(before)

    def _ranked(self, sampler: Any) -> list[list[int]]:
        """Batches of items that are likely to be the largest."""
        if iter(sampler) is sampler:  # it can be asked once
            return []
        most, sizes, size = ESTIMATED * length(self._loader) + RANKED, dict(self._look.sizes), picked(self._loader)
        if not _known(sampler, getattr(sampler, "sampler", None)):
            self._look.endless = next(itertools.islice(iter(sampler), most, None), None) is not None
        if size and (order := self._look.order):
            return [(order * (size // len(order) + 1))[:size]]
        found = [list(batch) for batch in itertools.islice(iter(sampler), RANKED)]
        known = [batch for batch in found if batch and all(isinstance(index, int) for index in batch)]
        return sorted(known, key=lambda batch: -len(batch) * max(sizes.get(one, 0) for one in batch))[:TRIED]


class BatchesFirst:
    """A batch sampler with some batches in the place of its first ones."""

    def __init__(self, sampler: Any, batches: Sequence[Sequence[int]]) -> None:
        self._sampler, self._batches = sampler, batches

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        own = iter(self._sampler)
        for batch in self._batches:
            if next(own, None) is None:
                return
            yield list(batch)
        yield from own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)


def streams(loader: Any) -> bool:
    """Tells whether the loader's items come one after another, and none can be chosen."""
    from torch.utils.data import IterableDataset

    return isinstance(loader.dataset, IterableDataset) or not hasattr(type(loader.dataset), "__getitem__")


def _plain(loader: Any) -> bool:
    """Tells whether nothing but the items makes one batch larger than another."""
    sampler = loader.batch_sampler
    return not streams(loader) and _known(sampler, getattr(sampler, "sampler", None), loader.sampler, loader.collate_fn)


OF_LIBRARIES = ("torch.utils.data.", "transformers.", "accelerate.")
"""Libraries whose samplers and collate functions draw no sizes: they order, pad and join items. A subclass lies in its own module."""


def _known(*things: Any) -> bool:
    """Tells whether each is a library's; of a wrapper that drops columns (transformers' Trainer) what it wraps."""
    inner = (getattr(one, "data_collator", one) for one in things)
    return all(one is None or f"{getattr(one, '__module__', '')}.".startswith(OF_LIBRARIES) for one in inner)


def picked(loader: Any) -> int:
    """Rows of a batch in which any items may come together; 0 where a sampler puts them together, or takes them more than once (those
    beside one another may belong together)."""
    sampler = getattr(loader, "batch_sampler", None)
    if sampler is None or streams(loader) or length(getattr(sampler, "sampler", None)) > length(loader.dataset):
        return 0
    return said(loader) or 0


def said(loader: Any) -> int | None:
    """Samples of a batch as a loader or its batch sampler says; None where neither does."""
    sizes = (getattr(one, "batch_size", None) for one in (loader, getattr(loader, "batch_sampler", None)))
    return next((size for size in sizes if isinstance(size, int) and not isinstance(size, bool)), None)


def item_size(item: Any, depth: int = 8) -> int:
    """Returns the size of an item or a batch: elements of tensors and arrays, lengths of texts and lists of numbers."""
    if hasattr(item, "numel"):
        return int(item.numel())
    if hasattr(item, "size") and hasattr(item, "dtype"):
        return int(item.size)
    if isinstance(item, (str, bytes)):
        return len(item)
    if isinstance(item, Mapping):
        return sum(item_size(value, depth) for value in item.values())
    if isinstance(item, (list, tuple)):
        return sum(item_size(value, depth) for value in item)
    if hasattr(item, "size") and isinstance(item.size, tuple):  # a PIL image
        return int(item.size[0]) * int(item.size[1])
    inside = [value for value in vars(item).values() if not callable(value)] if depth and hasattr(item, "__dict__") else []
    return sum(item_size(value, depth // 2) for value in inside) or 1


def largest(value: Any) -> tuple[int, ...]:
    """Returns the shape of the largest tensor in a batch, or in what a model is given; () where there is none."""
    import torch
    from torch.utils import _pytree

    tensors = [leaf for leaf in _pytree.tree_flatten(value)[0] if isinstance(leaf, torch.Tensor) and leaf.dim()]
    return tuple(max(tensors, key=lambda tensor: tensor.numel()).shape) if tensors else ()


def rows_of(batch: Any) -> int | None:
    """Returns the leading dimension of the largest tensor."""
    return next(iter(largest(batch)), None)
