"""Draws of a collate function: what a row is given doesn't depend on the micro-batch that it stands in.

A draw belongs to the row that the function has taken last from its list of rows (the streams are seeded by it then); or it is one for all
rows, which shows by its first dimension, and each row's part is drawn by itself, so that it doesn't depend on the padding either; or it is
the micro-batch's, and then a constant. Which of them it is shows best where a micro-batch has several rows: the first twin writes it down
by the line of code that draws, and the others follow it.
"""

from __future__ import annotations

import math
import os
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, SupportsIndex

ROW, EACH, ALL = "row", "each", "all"
"""A draw for the row in hand; one for all rows, with a part for each; one of the micro-batch."""
_SEED = 77_000
_DEPTH = 200
"""Frames of the stack that are looked through."""


class Collation:
    """One call of a collate function."""

    def __init__(self, rows: Sequence[int], *, sites: dict[str, str], seed: Callable[[int], None], left: bool = False) -> None:
        """``rows``: a number for each row. ``sites``: line of code -> whose its draws are. ``left``: rows are padded on their left."""
        self._rows, self._sites, self._seed, self._left = rows, sites, seed, left
        self._counts = 0
        self._taken: tuple[FrameType, bool] | None = None
        """The frame that took the last row; whether it goes through all of them."""
        self.leave()

    def close(self) -> None:
        """The function has returned; its list of rows may live on."""
        self._taken, self._rows = None, ()

    def take(self, at: int, frame: FrameType, *, through: bool) -> None:
        """A row is taken from the list."""
        if at >= len(self._rows):
            return
        self._taken = frame, through
        self._seed(_SEED + 1 + self._rows[at])

    def leave(self) -> None:
        """All rows have been taken."""
        if self._rows:
            self._taken = None
            self._seed(_SEED)

    def whose(self, shape: Sequence[int], frame: FrameType) -> str:
        """Whose a draw of this shape is that ``frame`` makes."""
        several = len(self._rows) > 1
        site = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        found = self._sites.get(site) or self._judged(shape, frame)
        if several:
            self._sites.setdefault(site, found)
        if found == EACH and (not shape or shape[0] != len(self._rows)):
            return ALL
        return found if found != ROW or self._in_hand(frame) else ALL

    def _judged(self, shape: Sequence[int], frame: FrameType) -> str:
        in_hand = self._in_hand(frame)
        if in_hand and self._taken is not None and self._taken[1]:
            return ROW
        if shape and shape[0] == len(self._rows):
            return EACH
        return ROW if in_hand else ALL

    def _in_hand(self, frame: FrameType) -> bool:
        """Whether what took the last row is still at work."""
        if self._taken is None:
            return False
        above: FrameType | None = frame
        for _ in range(_DEPTH):
            if above is None or above is self._taken[0]:
                break
            above = above.f_back
        return above is self._taken[0]

    def in_hand(self) -> bool:
        """Whether a draw that is made now is for a row."""
        return self._in_hand(sys._getframe(1))

    def numbers(self, stream: str, shape: Sequence[int]) -> list[float]:
        """As many as a draw for all rows needs: of each row's own stream, from the end of the row that isn't padded on."""
        self._counts += 1
        many, found = math.prod(shape[1:]), list[float]()
        for number in self._rows:
            own = random.Random(_SEED * (self._counts + 1) + number)
            part = [own.random() if stream == "random" else own.gauss(0.0, 1.0) for _ in range(many)]
            found += part[::-1] if self._left else part
        return found


class TakenRows(list[Any]):
    """The rows of a micro-batch, which say which of them is taken."""

    def __init__(self, rows: Iterable[Any] = (), collation: Collation | None = None) -> None:
        """Without a collation: a list like another, which code makes that keeps the kind of its list."""
        super().__init__(rows)
        self._collation = collation if collation is not None else Collation((), sites={}, seed=lambda _: None)

    def __iter__(self) -> Iterator[Any]:
        at = 0
        while at < len(self):
            self._collation.take(at, sys._getframe(1), through=True)
            yield list.__getitem__(self, at)
            at += 1
        self._collation.leave()

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, int):
            self._collation.take(at % max(len(self), 1), sys._getframe(1), through=False)
        return list.__getitem__(self, at)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return list, (list.copy(self),)


@contextmanager
def collating(rest: Any, collation: Collation) -> Iterator[None]:
    """While a collate function runs."""
    before, rest.collation = rest.collation, collation
    try:
        yield
    finally:
        rest.collation = before
        collation.close()


def bare(collate: Callable[..., Any], rows: Sequence[Any]) -> tuple[Callable[..., Any], Sequence[Any]]:
    """A person's own collate function, and its rows, where transformers' Trainer has wrapped it."""
    columns, inner = getattr(collate, "_remove_columns", None), getattr(collate, "data_collator", None)
    if callable(columns) and callable(inner):
        return inner, [columns(row) for row in rows]
    return collate, rows


def pads_left(collate: Any) -> bool:
    """Whether a tokenizer that a collate function holds pads rows on their left."""
    kept = [*getattr(collate, "__dict__", {}).values(), *(cell.cell_contents for cell in getattr(collate, "__closure__", None) or ())]
    return any(getattr(one, "padding_side", "") == "left" for one in kept)
