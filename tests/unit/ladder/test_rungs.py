"""The ladder's promises, for every ladder that can be built."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autofit_launcher.ladder.rungs import Ladder, Wheel, build, divisors_down, sizes_down


@st.composite
def ladders(draw: st.DrawFn) -> Ladder:
    world_size = draw(st.sampled_from((1, 2, 3, 4, 6)))
    micro_batch, accumulation = draw(st.integers(1, 96)), draw(st.integers(1, 6))
    per_device = micro_batch * accumulation
    floor = draw(st.integers(1, micro_batch))
    image_floor = 32 * draw(st.integers(1, 20))
    asked_size = image_floor + 32 * draw(st.integers(0, 20))
    wheels = [
        Wheel(name="micro_batch", values=divisors_down(micro_batch, of=per_device, floor=floor)),
        Wheel(name="image_size", values=sizes_down(asked_size, floor=image_floor, grid=32, ratio=draw(st.floats(0.5, 0.95)))),
        Wheel(name="checkpointing", values=(False, True)),
        Wheel(name="model", values=("x", "l", "m")[: draw(st.integers(1, 3))]),
    ]
    order = draw(st.permutations(wheels))
    return build(order, effective_batch=per_device * world_size, world_size=world_size)


@given(ladders())
def test_every_ladder_has_each_combination_once_in_order_with_the_effective_batch_and_begins_with_what_is_asked(ladder: Ladder) -> None:
    assert all(one.micro_batch * one.accumulation * one.world_size == ladder.effective_batch == one.effective_batch for one in ladder.rungs)
    combinations = {tuple(rung.values.items()) for rung in ladder.rungs}
    assert len(combinations) == len(ladder.rungs) == math.prod(len(one.values) for one in ladder.wheels)
    assert [rung.index for rung in ladder.rungs] == list(range(len(ladder.rungs)))
    slowest_first = [tuple(reversed(rung.position)) for rung in ladder.rungs]
    assert slowest_first == sorted(slowest_first), "an odometer whose first wheel is the fastest"
    assert ladder.asked.position == (0,) * len(ladder.wheels) and ladder.given_up(ladder.asked) == {}
    assert all(ladder.asked.values[wheel.name] == wheel.values[0] for wheel in ladder.wheels)


@given(asked=st.integers(32, 2000), grid=st.sampled_from([1, 8, 32, 64]), ratio=st.floats(0.1, 0.99), floor=st.integers(1, 2000))
def test_sizes_go_down_on_the_grid_to_the_floor_and_no_further(asked: int, grid: int, ratio: float, floor: int) -> None:
    sizes = sizes_down(asked, floor=floor, grid=grid, ratio=ratio)
    assert sizes[0] == asked
    assert all(later < earlier for earlier, later in itertools.pairwise(sizes))
    assert all(size % grid == 0 and size >= floor for size in sizes[1:])
    lowest = -(-floor // grid) * grid
    assert sizes[-1] == (lowest if lowest < asked else asked)


@given(asked=st.integers(1, 256), accumulation=st.integers(1, 8), floor=st.integers(1, 256))
def test_micro_batches_are_the_divisors_from_the_asked_one_down(asked: int, accumulation: int, floor: int) -> None:
    sizes = divisors_down(asked, of=asked * accumulation, floor=min(floor, asked))
    assert sizes[0] == asked
    assert set(sizes) == {size for size in range(min(floor, asked), asked + 1) if asked * accumulation % size == 0}


def test_an_inexact_micro_batch_is_refused() -> None:
    with pytest.raises(ValueError, match=r"micro-batch 3 x world size 1 does not divide 8"):
        build([Wheel(name="micro_batch", values=(4, 3))], effective_batch=8)


def test_where_another_effective_batch_is_accepted_accumulation_stays_as_asked() -> None:
    ladder = build([Wheel(name="micro_batch", values=(24, 12, 6, 3))], effective_batch=96, world_size=2, keep_batch=False)
    assert [(rung.micro_batch, rung.accumulation, rung.effective_batch) for rung in ladder.rungs] == [
        (24, 2, 96), (12, 2, 48), (6, 2, 24), (3, 2, 12),
    ]  # fmt: skip
