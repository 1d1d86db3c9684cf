"""Chooses by their lengths the samples that a trial trains and evaluates on, and their order: the worst batch, and every other shape.

Memory follows the largest batch and, beside it, the variety of shapes: a CPU's libraries keep something for each, a card's allocator
fragments. So an epoch of a trial goes from the longest batch to a short one and to an odd one, smaller at its end where the run's last
batch is, and the next epoch begins with the longest again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from launcher.shared.orders import Orders
from launcher.trainers.transformers.inside.guard import NotCovered


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialData:
    """What a trial trains on: ``order`` is one epoch, which is gone through again and again."""

    order: tuple[int, ...]
    """Indices of samples, batch after batch; only the last batch may be a smaller one."""
    validate_at: int
    """The optimizer step after which it validates: one of longest batches, of the second epoch at the earliest."""
    end_at: int
    """The last optimizer step, again one of longest batches."""


FINELY = (0.25, 0.5, 0.75)
"""Where between the longest and the shortest a text's batches are tried: below 64 KiB a tensor goes to the heap, which keeps its holes."""


def course(lengths: Sequence[int], orders: Orders, *, micro_batch: int, drop_last: bool, finely: bool = False) -> TrialData:
    """``finely``: lengths are all that differs."""
    longest = longest_batch(lengths, micro_batch)
    others = other_batches(lengths, micro_batch, drop_last=drop_last, parts=FINELY if finely else (0.5,))
    batches = [longest] * orders.trial_accumulation + others
    per_epoch = math.ceil(len(batches) / orders.trial_accumulation)
    validate_at = per_epoch * max(1, math.ceil((orders.steps - 1) / per_epoch)) + 1
    end_at = validate_at + per_epoch * math.ceil(orders.steps_after / per_epoch)
    return TrialData(order=tuple(index for batch in batches for index in batch), validate_at=validate_at, end_at=end_at)


def evaluated(lengths: Sequence[int], *, size: int, at_least: int, drop_last: bool, short_too: bool) -> list[int]:
    """Which samples of a validation set are evaluated: a short batch, the longest ones, the smaller last one.

    The longest comes after the others: in a run, too, it may come when nearly all that an evaluation keeps is there.
    ``at_least``: batches, as far as the set has them; ``short_too``: whether a batch of other lengths is another shape at all.
    """
    order = longest_first(lengths)
    others = other_batches(lengths, size, drop_last=drop_last) if len(order) > size else []
    last = [batch for batch in others if len(batch) < size]
    short = [batch for batch in others if len(batch) == size][:1] if short_too and len(order) >= 2 * size else []
    there = len(order) // size if drop_last else math.ceil(len(order) / size)
    full = min(max(1, at_least - len(short) - len(last)), max(1, there - len(short) - len(last)))
    longest = [order[at : at + size] for at in range(0, full * size, size)]
    return [index for batch in (*short, *reversed(longest), *last) for index in batch]


def longest_first(lengths: Sequence[int]) -> list[int]:
    """Indices, longest sample first; of equals the first."""
    return sorted(range(len(lengths)), key=lambda index: -lengths[index])


def longest_batch(lengths: Sequence[int], size: int) -> list[int]:
    """The batch of the longest samples; they repeat where there are fewer than a batch."""
    order = longest_first(lengths)
    return (order * math.ceil(size / len(order)))[:size]


def other_batches(lengths: Sequence[int], size: int, *, drop_last: bool, parts: Sequence[float] = (0.5,)) -> list[list[int]]:
    """Batches of other shapes than the longest: the shortest samples, those at ``parts`` between, the smaller one of an epoch's end."""
    order = longest_first(lengths)
    left_over = 0 if drop_last else len(order) % size
    candidates = [order[-size:], *(_around(order, size, part) for part in parts)] if len(order) >= size else []
    candidates += [_around(order, left_over, 0.5)] if left_over else []
    shapes = {_shape(longest_batch(lengths, size), lengths)}
    found = []
    for batch in candidates:
        if (shape := _shape(batch, lengths)) not in shapes:
            shapes.add(shape)
            found.append(batch)
    return found


def _around(order: Sequence[int], count: int, part: float) -> list[int]:
    """``count`` neighbours by length, with ``part`` of the rest before them."""
    return list(order[int((len(order) - count) * part) :][:count])


def with_heaviest(order: Sequence[int], heaviest: int | None) -> list[int]:
    """The same batches with one sample more to be loaded: the one whose loading takes most, in place of the last (the batch of others)."""
    if heaviest is None or heaviest in order:
        return list(order)
    return [*order[:-1], heaviest]


def dealt(order: Sequence[int], size: int, ranks: int) -> list[int]:
    """The same batches so often that each of the ranks, which get one after the other, gets every one of them. The last is filled up, as
    accelerate fills it (``even_batches``)."""
    if ranks == 1:
        return list(order)
    batches = [order[at : at + size] for at in range(0, len(order), size)]
    whole = [[batch[number % len(batch)] for number in range(size)] for batch in batches]
    return [index for batch in whole for _ in range(ranks) for index in batch]


def _shape(batch: Sequence[int], lengths: Sequence[int]) -> tuple[int, int]:
    return len(batch), max(lengths[index] for index in batch)


def lengths_of(dataset: Any) -> list[int]:
    """What a built-in trainer says of its samples' lengths. Raises NotCovered where nothing is said: the worst could not be known."""
    lengths = getattr(dataset, "lengths", None)
    if lengths is None or not len(lengths):
        raise NotCovered(f"{type(dataset).__name__} doesn't say how long its samples are, so the worst batch can't be known")
    return list(lengths)
