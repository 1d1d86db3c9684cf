"""The worst data: longest items first where items differ in size, and again early in the first two optimizer steps; then short and odd
ones, then the longest again (memory also grows with the variety of shapes); otherwise as drawn. The report says which.

Items are read in a forked child, so that nothing the data set opens, caches or allocates is left in the script's own process.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import random
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .settings import VARIETY_OF_LENGTHS

if TYPE_CHECKING:
    from .instrument import Instrument

SAMPLE_ITEMS = 2000
VARIETY_OF_VALIDATION = 8
"""Validation batches beside the longest ones, where lengths differ."""
SAMPLE_SECONDS = 4.0
GOLDEN = 0.6180339887
"""Multiples of it, without their whole part, lie evenly however many there are."""
FEW = 2
SPREAD = 6
"""One in so many of the other lengths comes in a whole batch, and after so many comes the longest again."""
ALL_HELD = 6
"""So many batches are the longest to begin with. Gradients are held from a step's second micro-batch on, the optimizer's states from its
second step on, and what a loop's names refer to (outputs of the batch before) until they are given anew. So the longest must come twice in
a row in the second step, whatever a script accumulates without saying so. Of each accumulation one of these or a later pair does."""


def length(thing: Any) -> int:
    """len(), or 0 where there is none."""
    try:
        return len(thing)
    except (TypeError, NotImplementedError):
        return 0


@contextlib.contextmanager
def first(loader: Any, instrument: Instrument, kind: str) -> Iterator[None]:
    """While open, an iterator made of ``loader`` begins with the longest items. Changes nothing where sizes don't vary."""
    order = _longest(loader, instrument, kind)
    sampler = getattr(loader, "batch_sampler", None)
    if order is None or sampler is None:
        yield
        return
    groups = _groups(sampler)
    size = 0 if groups else getattr(sampler, "batch_size", None) or getattr(loader, "batch_size", None) or 0
    accumulation = max(instrument.orders.payload.get("accumulation", instrument.orders.accumulation), 1)
    wanted = max((instrument.wanted + 2) * accumulation, VARIETY_OF_LENGTHS)
    if groups:
        batches = _longest_in_groups(groups, order)
    elif not size:  # the sampler makes batches of its own, by tokens or by buckets
        batches = _own_batches(sampler, instrument.sizes.get(id(loader.dataset), {}), wanted)
    else:
        instrument.turn += 1
        few = size if getattr(sampler, "drop_last", True) else min(size, FEW)  # a script that drops the last may know one size only
        if kind == "train":
            batches = _with_all_held(_varied(order, size, wanted, instrument.turn, few=few))
            instrument.judge_losses_of(next((at for at, batch in enumerate(batches) if len(batch) < size), math.inf))
        else:
            batches = _validation(order, size, instrument.wanted_validation, instrument.turn, few=few)
    loader.__dict__["batch_sampler"] = _First(sampler, batches)
    try:
        yield
    finally:
        loader.__dict__["batch_sampler"] = sampler


OWN_BATCHES = 1000
ESTIMATED = 3
"""A sampler that has more batches than so many times its length, and ``OWN_BATCHES`` more, has no end."""


def _own_batches(sampler: Any, sizes: Mapping[int, int], wanted: int) -> list[list[int]]:
    """The batches that a sampler makes itself, the largest between others of every size; none where it can't be asked twice."""
    if iter(sampler) is sampler:
        return []
    with _same_chance():
        found = [list(batch) for batch in itertools.islice(iter(sampler), OWN_BATCHES)]
    if not found or not all(isinstance(index, int) for batch in found for index in batch):
        return []
    ranked = sorted(found, key=lambda batch: -len(batch) * max((sizes.get(index, 0) for index in batch), default=0))
    return [ranked[batch[0]] for batch in _with_all_held(_varied(range(len(ranked)), 1, wanted))]


def _groups(sampler: Any) -> list[list[int]]:
    """The first batches of a sampler that takes each item several times in a row, and always as often (GRPO: for several answers to one
    question); none of another's, whose neighbours may belong together by what they hold."""
    if length(getattr(sampler, "sampler", None)) < 2 or iter(sampler) is sampler:
        return []
    with _same_chance():
        found = [list(batch) for batch in itertools.islice(iter(sampler), VARIETY_OF_LENGTHS)]
    if not all(isinstance(index, int) for batch in found for index in batch):
        return []
    often = {len(list(run)) for batch in found for _, run in itertools.groupby(batch)}
    return found if len(often) == 1 and often != {1} else []


def _longest_in_groups(found: Sequence[Sequence[int]], order: Sequence[int]) -> list[list[int]]:
    """The same batches with other items: the longest, of each third group of batches with the same items in them others."""
    batches: list[list[int]] = []
    group, before = -1, list[int]()
    for batch in found:
        items = list(dict.fromkeys(batch))
        group, before = group + (items != before), items
        at = int(group * GOLDEN % 1.0 * max(len(order) - len(items), 0)) if group % 3 == 2 else 0
        instead = dict(zip(items, order[at:], strict=False))
        batches.append([instead.get(index, index) for index in batch])
    return batches


@contextlib.contextmanager
def _same_chance() -> Iterator[None]:
    """Leaves torch's and Python's random numbers where they were."""
    import torch

    state = random.getstate()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(state)


def _varied(order: Sequence[int], size: int, wanted: int, turn: int = 0, *, few: int = 1) -> list[list[int]]:
    """The longest items, then others of every length, then the longest again. ``turn``: other lengths than in the turn before.

    Most of the others are few: on a CPU what is kept for a length (oneDNN's primitives) is kept for a batch of two as for one of many.
    """
    order = list(order) * (size // len(order) + 1)
    longest, shortest = order[:size], order[-size:]
    places = [int((number + 1 + turn * wanted) * GOLDEN % 1.0 * max(len(order) - size, 0)) for number in range(wanted)]
    others = [order[at : at + (size if number % SPREAD == 0 else few)] for number, at in enumerate(places)]
    batches = [longest, shortest]
    for number, other in enumerate(others):
        batches += [other, longest] if number % SPREAD == SPREAD - 1 else [other]
    return batches


def _with_all_held(batches: list[list[int]]) -> list[list[int]]:
    """The longest as often as ``ALL_HELD`` to begin with, and after that in pairs: a training of two optimizer steps has met it with
    everything held."""
    longest = batches[0]
    rest = [again for batch in batches[1:] for again in ([longest, longest] if batch == longest else [batch])]
    return [longest] * ALL_HELD + rest[:2] + [longest, longest] + rest[2:]


def _validation(order: Sequence[int], size: int, wanted: int, turn: int = 0, *, few: int = 1) -> list[list[int]]:
    """The longest, for as long as growth from batch to batch is looked for; then others of every length, and the longest again."""
    varied = _varied(order, size, VARIETY_OF_VALIDATION, turn, few=few)
    return [varied[0]] * wanted + varied[1:VARIETY_OF_VALIDATION] + varied[:1]


class _First:
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


def _longest(loader: Any, instrument: Instrument, kind: str) -> list[int] | None:
    """Indices of the sampled items, longest first, or None where the data is taken as drawn. Says which, once for each kind."""
    done = instrument.sampled
    dataset = getattr(loader, "dataset", None)
    key = id(dataset)
    if key in done:
        return done[key]
    word = "training" if kind == "train" else "validation"
    done[key] = None
    total = length(dataset)
    assert instrument.recorder is not None
    if not hasattr(type(dataset), "__getitem__") or not total or getattr(loader, "batch_sampler", None) is None:
        instrument.recorder.note(f"{word} data as drawn: its items can't be picked")
        return None
    if length(getattr(loader.batch_sampler, "sampler", None)) > total and not _groups(loader.batch_sampler):  # several views of a row
        instrument.recorder.note(
            f"{word} data as drawn: a pass takes items more than once, so those beside one another may belong together"
        )
        return None
    sizes = _sizes(instrument, dataset, _spread(total))
    if not sizes:
        instrument.recorder.note(f"{word} data as drawn: its items could not be sampled")
    elif len(set(sizes.values())) == 1:
        instrument.recorder.note(f"{word} data as drawn: {len(sizes)} sampled items have one size")
    else:
        least, most = min(sizes.values()), max(sizes.values())
        instrument.recorder.note(f"{word} data longest first: {len(sizes)} of {total} items sampled, sizes from {least} to {most}")
        instrument.sizes[key] = sizes
        done[key] = sorted(sizes, key=lambda index: -sizes[index])
    return done[key]


def _spread(total: int) -> list[int]:
    """Indices of a sample, evenly spread, a coarse one first, so that any beginning of it is spread too."""
    wanted = min(total, SAMPLE_ITEMS)
    even = [index * total // wanted for index in range(wanted)]
    return [*even[::16], *(index for at, index in enumerate(even) if at % 16)]


def _sizes(instrument: Instrument, dataset: Any, indices: Sequence[int]) -> dict[int, int]:
    """Index -> size of the item, for as many as could be read in time, by a forked child."""
    text = _told_by_a_child(instrument, lambda writer: _measure(dataset, indices, writer))
    found: dict[int, int] = {}
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            index, size = json.loads(line)
            found[index] = size
    return found


def _told_by_a_child(instrument: Instrument, tell: Callable[[int], None]) -> str:
    """What a forked child writes into the pipe that ``tell`` is given, as far as it comes in time."""
    import torch

    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        instrument.leave()
        try:
            torch.set_num_threads(1)  # as data loader workers do: a forked child must not meet the parent's threads
            tell(writer)
        finally:
            os._exit(0)
    os.close(writer)
    text = b""
    deadline = time.monotonic() + SAMPLE_SECONDS + 2.0
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([reader], [], [], left)
        chunk = os.read(reader, 65536) if ready else b""
        if not chunk:
            break
        text += chunk
    os.close(reader)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
    return text.decode("ascii", errors="replace")


def _measure(dataset: Any, indices: Sequence[int], writer: int) -> None:
    deadline = time.monotonic() + SAMPLE_SECONDS
    for index in indices:
        if time.monotonic() > deadline:
            return
        os.write(writer, f"[{index}, {item_size(dataset[index])}]\n".encode("ascii"))


def endless(loader: Any, instrument: Instrument, length: int) -> bool:
    """Whether the loader's sampler begins anew by itself, and so never comes to an end, whatever ``length`` the loader says that it has.
    A length that is only estimated isn't taken for it."""
    sampler: Any = getattr(loader, "batch_sampler", None) or getattr(loader, "sampler", None)
    of_torch = (one is None or type(one).__module__.startswith("torch.utils.data") for one in (sampler, getattr(sampler, "sampler", None)))
    if all(of_torch):
        return False

    def tell(writer: int) -> None:
        batches = iter(sampler)
        if batches is not sampler and next(itertools.islice(batches, ESTIMATED * length + OWN_BATCHES, None), None) is not None:
            os.write(writer, b"endless")

    return _told_by_a_child(instrument, tell) == "endless"


def item_size(item: Any) -> int:
    """How much there is in an item: elements of tensors and arrays, lengths of texts and lists of numbers."""
    if hasattr(item, "numel"):
        return int(item.numel())
    if hasattr(item, "size") and hasattr(item, "dtype"):
        return int(item.size)
    if isinstance(item, (str, bytes)):
        return len(item)
    if isinstance(item, dict):
        return sum(item_size(value) for value in item.values())
    if isinstance(item, (list, tuple)):
        return sum(item_size(value) for value in item)
    if hasattr(item, "size") and isinstance(item.size, tuple):  # a PIL image
        return int(item.size[0]) * int(item.size[1])
    return 1


def of_a_pass(loader: Any) -> int:
    """Samples of a whole pass over a loader, which its sampler knows; 0 where it doesn't, or makes batches of its own sizes."""
    batches = getattr(loader, "batch_sampler", None)
    sampler, size = getattr(batches, "sampler", None), getattr(batches, "batch_size", None)
    if sampler is None or not isinstance(size, int) or size < 1:
        return 0
    samples = length(sampler)
    return samples - samples % size if getattr(batches, "drop_last", False) else samples


def batch_size(loader: Any, batch: Any) -> int | None:
    """Samples per batch: as the loader says, or the leading dimension of the batch's largest tensor."""
    for said in (getattr(loader, "batch_size", None), getattr(getattr(loader, "batch_sampler", None), "batch_size", None)):
        if isinstance(said, int) and not isinstance(said, bool):
            return said
    import torch
    from torch.utils import _pytree

    leaves = _pytree.tree_flatten(batch)[0]
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim()]
    return int(max(tensors, key=lambda tensor: tensor.numel()).shape[0]) if tensors else None
