"""The worst data: the largest batches that a loader gives come early, in the first two optimizer steps, and again. Where items of a data
set differ in size, these are its longest items; then others of every size, then the longest again (memory also grows with the variety of
shapes). The report says what was looked at (``loader_look``), and of which sizes it was.
"""

from __future__ import annotations

import contextlib
import json
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.files import replace
from ..common.orders import VARIETY_OF_LENGTHS
from .loader_look import BatchesFirst, LoaderLook, item_size, looked, picked, rows_of, said
from .loader_look import length as length

if TYPE_CHECKING:
    from .instrument import Instrument

LOOKS = 4
"""Loaders of training, and as many of validation, that are looked at: a script may make new ones without end."""
FOREVER = 100
"""A pass that takes the items of a data set more often than this has no end."""
VARIETY_OF_VALIDATION = 8
"""Validation batches beside the largest ones, where sizes differ."""
GOLDEN = 0.6180339887
"""Multiples of it, without their whole part, lie evenly however many there are."""
SPREAD = 6
"""Number of other lengths after which the longest comes again."""
ALL_HELD = 6
"""Number of longest batches to begin with. Gradients are held from a step's second micro-batch on, the optimizer's states from its second
step on, and what a loop's names refer to (outputs of the batch before) until they are given anew. So the longest must come twice in a row
in the second step, whatever a script accumulates without saying so. Of each accumulation one of these or a later pair does."""


@contextlib.contextmanager
def first(loader: Any, instrument: Instrument, kind: str) -> Iterator[None]:
    """Has an iterator made of ``loader`` while open begin with the largest batches. Changes nothing where sizes don't vary."""
    look = _look_at(loader, instrument, kind)
    sampler = getattr(loader, "batch_sampler", None)
    if look is None or not (look.order or look.varied):
        yield
        return
    accumulation = max(instrument.orders.payload.get("accumulation", instrument.orders.accumulation), 1)
    wanted = max((instrument.wanted + 2) * accumulation, VARIETY_OF_LENGTHS) if kind == "train" else instrument.wanted_validation
    several = wanted if kind == "train" else VARIETY_OF_VALIDATION
    size = picked(loader)
    if size and look.order:
        loader.__dict__["batch_sampler"] = BatchesFirst(sampler, _in_order(_varied(look.order, size, several), wanted, kind))
    if look.varied:
        places = _in_order(_varied(range(several), 1, several), wanted, kind)
        due = [batch == places[0] for batch in places]
        loader.__dict__["_get_iterator"] = lambda: _given(type(loader)._get_iterator(loader), look, due)
    try:
        yield
    finally:
        loader.__dict__.pop("_get_iterator", None)
        if size and look.order:
            loader.__dict__["batch_sampler"] = sampler


def _look_at(loader: Any, instrument: Instrument, kind: str) -> LoaderLook | None:
    """Returns one look for all loaders of its kind with the same data set, size and collate function. None: too many were looked at, or a
    trainer's hooks know more."""
    dataset, collate = getattr(loader, "dataset", None), getattr(loader, "collate_fn", None)
    key = (kind, id(dataset), getattr(loader, "batch_size", None), getattr(collate, "__qualname__", type(collate).__qualname__))
    if key in instrument.looks and instrument.looks[key][0]() is dataset:
        return instrument.looks[key][1]  # type: ignore[no-any-return]
    if instrument.knows_the_worst or sum(kind == one for one, *_ in instrument.looks) >= LOOKS:
        return None
    look = _handed_on(loader, instrument, kind)
    instrument.looks[key] = (_reference(dataset), look)
    instrument.sampled[id(dataset)] = instrument.sampled.get(id(dataset), False) or bool(look.order or look.varied)
    assert instrument.recorder is not None
    instrument.recorder.note(f"{'training' if kind == 'train' else 'validation'} data {look.told(length(dataset))}")
    return look


def _handed_on(loader: Any, instrument: Instrument, kind: str) -> LoaderLook:
    """The look that an earlier process of this trial had at the same loader: the same of its kind, over as many items. Else one of our own,
    which a later process may take."""
    number, mine = sum(kind == one for one, *_ in instrument.looks), Path(instrument.settings.records).absolute().parent
    name = f"{kind}-{number}-{length(getattr(loader, 'dataset', None))}-{getattr(loader, 'batch_size', None)}.look"
    earlier = [path for path in mine.parent.glob(f"*/{name}") if path.parent != mine]
    if earlier:
        return LoaderLook(**json.loads(earlier[0].read_text(encoding="utf-8")))
    look = looked(loader, instrument)
    replace(mine / name, json.dumps(asdict(look)))
    return look


def _reference(thing: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(thing)
    except TypeError:  # a list
        return lambda: thing


def _in_order(varied: list[list[int]], wanted: int, kind: str) -> list[list[int]]:
    """Batches of training; or of validation: the longest, for as long as growth from batch to batch is looked for, then others of every
    length, and the longest again."""
    return _with_all_held(varied) if kind == "train" else [varied[0]] * wanted + varied[1:VARIETY_OF_VALIDATION] + varied[:1]


def _varied(order: Sequence[int], size: int, wanted: int) -> list[list[int]]:
    """The longest items, then others of every length, and the longest again now and then."""
    order = list(order) * (size // len(order) + 1)
    longest, shortest = order[:size], order[-size:]
    batches = [longest, shortest]
    for number in range(1, wanted + 1):
        at = int(number * GOLDEN % 1.0 * (len(order) - size))
        batches += [order[at : at + size], *([longest] if number % SPREAD == 0 else [])]
    return batches


def _with_all_held(batches: list[list[int]]) -> list[list[int]]:
    """The longest as often as ``ALL_HELD`` to begin with, and after that in pairs: a training of two optimizer steps has met it with
    everything held."""
    longest = batches[0]
    rest = [again for batch in batches[1:] for again in ([longest, longest] if batch == longest else [batch])]
    return [longest] * ALL_HELD + rest[:2] + [longest, longest] + rest[2:]


def _given(iterator: Any, look: LoaderLook, due: Iterable[bool]) -> Any:
    """An iterator of a loader's that gives the largest batch where it is due, unless its own is as large."""
    places, this = iter(due), weakref.ref(iterator)

    def following() -> Any:
        own: Any = this()
        batch = type(own)._next_data(own)
        if not next(places, False) or item_size(batch) >= look.most:
            return batch
        del batch  # it is not there beside the other
        import torch

        return torch.load(look.file, weights_only=False)

    iterator._next_data = following
    return iterator


def endless(loader: Any, instrument: Instrument) -> bool:
    """Tells whether nobody comes to the loader's end, whatever length it says that it has: its sampler begins anew by itself, or draws its
    items over and over (with replacement, ten billion times)."""
    if of_a_pass(loader) > FOREVER * max(length(getattr(loader, "dataset", None)), 1):
        return True
    look = _look_at(loader, instrument, "train")
    return look is not None and look.endless


def of_a_pass(loader: Any) -> int:
    """Samples of a whole pass over a loader, which its sampler knows; 0 where it doesn't, or makes batches of its own sizes."""
    batches = getattr(loader, "batch_sampler", None)
    sampler, size = getattr(batches, "sampler", None), said(loader) or 0
    if sampler is None or size < 1:
        return 0
    samples = length(sampler)
    return samples - samples % size if getattr(batches, "drop_last", False) else samples


FEW_DRAWS = 3
"""A look at fewer batches doesn't tell whether their number of samples is drawn."""


def batch_size(loader: Any, batch: Any, instrument: Instrument) -> int | None:
    """Samples per batch: as the loader says, or the asked ones where their number is drawn around these, or as many as the batch has."""
    if (size := said(loader)) is not None:
        return size
    asked, drawn = instrument.orders.payload.get("micro_batch"), drawn_batch(loader, batch, instrument)
    return asked if drawn is not None and asked is not None and drawn[0] <= asked <= drawn[1] else rows_of(batch)


def drawn_batch(loader: Any, batch: Any, instrument: Instrument) -> tuple[int, int] | None:
    """Returns (fewest, most) samples that a loader's batches were seen to have, where it says no number of them and makes none usual."""
    rows, asked = rows_of(batch), instrument.orders.payload.get("micro_batch")
    if said(loader) is not None or rows is None:
        return None
    look = next((look for of, look in instrument.looks.values() if of() is loader.dataset), None)
    if look is not None and look.drawn[1]:
        return min(look.drawn[0], rows), max(look.drawn[1], rows)
    unseen = look is None or look.number < FEW_DRAWS
    return (rows, rows) if unseen and asked not in (None, rows) else None
