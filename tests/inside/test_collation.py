"""Draws of a collate function hang on the row, whatever micro-batch it stands in."""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from launcher.inside.same.collation import Collation, TakenRows

Collate = Callable[[TakenRows, Collation], list[Any]]


def laid_out(collate: Collate, sizes: Sequence[int], sites: dict[str, str]) -> list[Any]:
    """What the rows come to in micro-batches of these sizes."""
    found, begin = [], 0
    for size in sizes:
        collation = Collation(range(begin, begin + size), sites=sites, seed=random.seed)
        found += collate(TakenRows([f"row {at}" for at in range(begin, begin + size)], collation), collation)
        begin += size
    return found


def drawn(collation: Collation, *shape: int) -> list[Any]:
    """As a function that draws so many numbers does it."""
    whose = collation.whose(shape, sys._getframe(1))
    if whose == "each":
        return collation.numbers("random", shape)
    return [0.3 if whose == "all" else random.random()] * (shape[0] if shape else 1)


def of_each_row(rows: TakenRows, collation: Collation) -> list[Any]:
    return [(row, random.random(), random.random()) for row in rows]


def of_as_many_as_the_row_is_long(rows: TakenRows, collation: Collation) -> list[Any]:
    return [(row, [random.random() for _ in range(int(row[-1]) + 1)]) for row in rows]


def by_number(rows: TakenRows, collation: Collation) -> list[Any]:
    return [(rows[at], random.random()) for at in range(len(rows))]


def at_once(rows: TakenRows, collation: Collation) -> list[Any]:
    first = drawn(collation, len(rows))
    return [*zip(rows, first, drawn(collation, len(rows)), strict=True)]


def after_a_look_at_the_first(rows: TakenRows, collation: Collation) -> list[Any]:
    assert rows[0]
    return [*zip(list(rows), drawn(collation, len(rows)), strict=True)]


def of_one_number_in_a_row(rows: TakenRows, collation: Collation) -> list[Any]:
    return [(row, *drawn(collation, 1)) for row in rows]


def of_four_numbers_in_a_row(rows: TakenRows, collation: Collation) -> list[Any]:
    return [(row, *drawn(collation, 4)) for row in rows]


def for_the_whole_batch(rows: TakenRows, collation: Collation) -> list[Any]:
    names = list(rows)
    (chosen,) = drawn(collation, 1)
    return [(name, chosen) for name in names]


@pytest.mark.parametrize(
    "collate",
    [
        of_each_row, of_as_many_as_the_row_is_long, by_number, at_once, after_a_look_at_the_first, of_one_number_in_a_row,
        of_four_numbers_in_a_row, for_the_whole_batch,
    ],
)  # fmt: skip
def test_a_row_is_drawn_the_same_in_every_layout(collate: Collate) -> None:
    sites: dict[str, str] = {}
    first = laid_out(collate, [4, 4], sites)
    assert laid_out(collate, [2, 2, 2, 2], dict(sites)) == first and laid_out(collate, [1] * 8, dict(sites)) == first
    values = {str(row[1:]) for row in first}
    assert len(values) == (1 if collate is for_the_whole_batch else 8), "what is of a row isn't another row's"


@pytest.mark.parametrize("left", [False, True])
def test_a_longer_padding_changes_nothing_of_a_row(left: bool) -> None:
    def numbers(width: int) -> list[float]:
        found = Collation([7], sites={}, seed=random.seed, left=left).numbers("random", (1, width))
        return found[-5:] if left else found[:5]

    assert numbers(5) == numbers(9)


def test_rows_that_outlive_their_function_are_a_list_like_another() -> None:
    seeds: list[int] = []
    collation = Collation([3], sites={}, seed=seeds.append)
    rows = TakenRows(["a"], collation)
    assert list(rows) == ["a"] and type(rows)(one for one in rows) == ["a"] and (known := len(seeds))
    collation.close()
    assert list(rows) == ["a"] and rows[0] == "a" and len(seeds) == known


def test_a_copy_of_the_rows_is_a_plain_list() -> None:
    rows = TakenRows(["a"], Collation([0], sites={}, seed=random.seed))
    assert type(copy.deepcopy(rows)) is list
