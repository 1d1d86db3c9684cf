"""Extrapolates what an evaluation keeps, from a few batches to all of them. Pure, save for running the metrics on as many rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_ROWS = 512
"""Rows that metrics are computed on in a trial; beyond them the need is taken to grow as it did between a half and the whole of them."""
MOST_ROW_BYTES = 32 * 2**10
"""Rows larger than this are scores of a vocabulary, not tokens: joining those needs more than any metric of them does."""


@dataclass(kw_only=True)
class Kept:
    """What one evaluation has kept so far."""

    container_bytes: dict[int, int] = field(default_factory=dict)
    held_bytes: dict[int, int] = field(default_factory=dict)
    """The part of them that is on the device."""
    widened_bytes: dict[int, int] = field(default_factory=dict)
    batches: int = 0
    rows: int = 0
    last_rows: int = 0
    """Of the batch seen last."""
    live_bytes: int = 0
    """In use right after the last batch seen was kept."""
    peak_bytes: int = 0
    bare_bytes: int = 0
    """The most that a batch needed beside what was kept before it."""
    before_bytes: int = 0
    """What is kept before the batch that comes next, with the predictions that the loop still names."""
    metrics_bytes: int = 0
    """What computing the metrics of the whole set needs in all; 0 where nothing was found out."""

    @property
    def bytes_per_row(self) -> float:
        return sum(self.container_bytes.values()) / self.rows if self.rows else 0.0

    def began(self, rows: int) -> None:
        """A batch of so many rows."""
        self.rows += rows
        self.last_rows = rows

    def ended(self, *, live_bytes: int, peak_bytes: int) -> None:
        """It is kept. ``peak_bytes``: the highest of all so far."""
        if peak_bytes > self.peak_bytes:
            self.bare_bytes = max(self.bare_bytes, peak_bytes - self.before_bytes)
        self.batches += 1
        self.live_bytes, self.peak_bytes = live_bytes, peak_bytes
        self.before_bytes = sum(self.held_bytes.values()) + round(self.bytes_per_row * self.last_rows)

    def beyond_peak(self, *, size: int, rows_in_all: int, joins: bool, moved_every: int | None) -> float:
        """Bytes that the evaluation of all rows, ``size`` in a batch, needs beyond the peak of the batches seen.

        Each batch's predictions are kept to the end of the evaluation. ``joins``: they are joined anew at every batch (``nested_concat``
        makes the new tensor while the old one is alive), so that for a moment nearly twice as much is there as is kept.
        ``moved_every``: they go to host memory every so many batches (``eval_accumulation_steps``); only up to there do they grow here.
        The last batch of a set may be a small one (4 of 52 samples, 16 at a time): then nearly all of what is kept is there twice.
        The largest batch may be the last: what the others keep is there then, and the predictions of the one before, which the loop names
        until there are new ones. So far it had less beside it.
        """
        per_batch, total = self.bytes_per_row * size, rows_in_all / size
        most_kept = min(total, moved_every) if moved_every else total
        more = max(0, most_kept - self.rows / size) * per_batch
        kept_before = math.ceil(most_kept) - 1
        with_the_largest_last = self.bare_bytes + most_kept * per_batch if total > 1 else 0
        at_the_last_join = self.live_bytes + more + (kept_before * per_batch if joins else 0)
        return max(0.0, more, max(at_the_last_join, with_the_largest_last) - self.peak_bytes)

    def in_host_memory(self, *, size: int, rows_in_all: int, joins: bool, moved_every: int | None) -> float:
        """Bytes of host memory beside a card that the evaluation of all rows takes and that of the rows seen didn't: what is kept becomes
        arrays there at its end, or every so many batches. Where those are joined, all that came before the last is there twice."""
        held = sum(self.container_bytes.values()) + sum(self.widened_bytes.values())
        twice = (math.ceil(rows_in_all / size / moved_every) - 1) * moved_every * size if joins and moved_every else 0
        return held / self.rows * max(0, rows_in_all - self.rows + twice) if self.rows else 0.0


def tensor_bytes(kept: Any) -> int:
    """Bytes of all tensors and arrays in nested lists, tuples and mappings."""
    return sum(int(getattr(leaf, "nbytes", 0)) for leaf in _leaves(kept))


def widened_bytes(kept: Any) -> int:
    """Bytes of the arrays that Trainer makes of them beside them: bfloat16, which numpy doesn't have, becomes float32."""
    return sum(2 * int(leaf.nbytes) for leaf in _leaves(kept) if str(getattr(leaf, "dtype", "")) == "torch.bfloat16")


def _leaves(kept: Any) -> list[Any]:
    if kept is None:
        return []
    if isinstance(kept, Mapping):
        return [leaf for value in kept.values() for leaf in _leaves(value)]
    if isinstance(kept, (list, tuple)):
        return [leaf for value in kept for leaf in _leaves(value)]
    return [kept]


# ---------------------------------------------------------------------------------------------------------------------------------
# Metrics of the whole set


def rows_to_try(*, rows_in_all: int, bytes_per_row: float) -> int:
    """On how many rows metrics are computed in a trial; 0 where that would tell nothing."""
    return min(rows_in_all, MOST_ROWS) if bytes_per_row <= MOST_ROW_BYTES else 0


def repeated(value: Any, rows: int) -> Any:
    """Arrays and tensors with their rows repeated up to ``rows``; whatever has none as it is."""
    if isinstance(value, (list, tuple)):
        return type(value)(repeated(one, rows) for one in value)
    if not getattr(value, "shape", ()):
        return value
    return value[_numbers(rows, int(value.shape[0]))]


def _numbers(rows: int, there: int) -> list[int]:
    return [number % there for number in range(rows)]


def metrics_need(compute: Callable[[int], int], *, rows: int, rows_in_all: int) -> int:
    """Bytes in use, at most, while metrics of all rows are computed. ``compute(n)`` computes those of n rows and says so of them."""
    if rows >= rows_in_all:
        return compute(rows)
    half = compute(max(1, rows // 2))
    whole = compute(rows)
    per_row = max(0, whole - half) / max(1, rows - rows // 2)
    return int(whole + per_row * (rows_in_all - rows))
