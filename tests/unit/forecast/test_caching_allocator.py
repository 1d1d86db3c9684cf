"""The simulated allocator: PyTorch's own rules, case by case, and what holds for any sequence of allocations."""

from __future__ import annotations

import itertools
import random

import pytest

from launcher.forecast.caching_allocator import Full, SimulatedAllocator
from launcher.forecast.expandable_segments import ExpandableAllocator
from launcher.shared.sizes import KIB, MIB


def test_small_allocations_share_a_segment_of_two_mib() -> None:
    card = SimulatedAllocator()
    for key in range(4):
        card.allocate(key, 500 * KIB)
    assert card.reserved == 2 * MIB
    card.allocate("one more", 500 * KIB)
    assert card.reserved == 4 * MIB


def test_sizes_are_rounded_to_512_bytes() -> None:
    card = SimulatedAllocator()
    card.allocate("a", 1)
    card.allocate("b", 513)
    assert card.allocated == 3 * 512


def test_middling_allocations_come_from_20_mib_and_large_ones_from_their_own_segment() -> None:
    card = SimulatedAllocator()
    card.allocate("middling", 3 * MIB)
    assert card.reserved == 20 * MIB
    card.allocate("fits beside it", 12 * MIB)
    assert card.reserved == 20 * MIB
    card.allocate("large", 17 * MIB + 1)
    assert card.reserved == 20 * MIB + 18 * MIB


def test_of_a_large_block_no_rest_of_a_mib_or_less_is_split_off() -> None:
    card = SimulatedAllocator()
    card.allocate("whole", 12 * MIB)
    card.release("whole")
    card.allocate("nearly", 11 * MIB)
    assert card.allocated == 12 * MIB
    card.release("nearly")
    card.allocate("less", 10 * MIB)
    assert card.allocated == 10 * MIB


def test_free_neighbours_become_one_block() -> None:
    card = SimulatedAllocator()
    for key in "abc":
        card.allocate(key, 6 * MIB)
    for key in "acb":
        card.release(key)
    card.allocate("all of it", 18 * MIB)
    assert card.reserved == 20 * MIB


def test_the_best_fitting_block_is_taken() -> None:
    card = SimulatedAllocator()
    for key, size in (("thirty", 30), ("wall", 11), ("fourteen", 14)):
        card.allocate(key, size * MIB)
    card.release("thirty")
    card.release("fourteen")
    card.allocate("new", 12 * MIB)
    card.allocate("large", 30 * MIB)
    assert card.reserved == card.peak_reserved == (30 + 12 + 14) * MIB


def test_a_full_card_gives_its_empty_segments_back_before_it_fails() -> None:
    card = SimulatedAllocator(capacity=40 * MIB)
    card.allocate("first", 30 * MIB)
    card.release("first")
    card.allocate("second", 36 * MIB)
    assert card.retries == 1 and card.reserved == 36 * MIB
    with pytest.raises(Full, match="36"):
        card.allocate("third", 8 * MIB)


def test_fragments_that_fill_a_card_hurt_no_expandable_segment() -> None:
    def growing(card: SimulatedAllocator) -> None:
        for step in range(12, 60, 2):  # a cache that is made anew, a little larger each time
            card.allocate(step, step * MIB)
            if step > 12:
                card.release(step - 2)

    plain, expandable = SimulatedAllocator(capacity=180 * MIB), ExpandableAllocator(capacity=180 * MIB)
    growing(expandable)
    growing(plain)
    assert expandable.peak_reserved < plain.peak_reserved
    assert expandable.retries < plain.retries


@pytest.mark.parametrize("allocator", [SimulatedAllocator, ExpandableAllocator])
def test_at_any_time_what_is_reserved_covers_what_is_allocated_and_all_comes_back(allocator: type[SimulatedAllocator]) -> None:
    rng = random.Random(7)
    card, live, asked = allocator(), [], 0
    for key in range(3000):
        if live and rng.random() < 0.5:
            card.release(live.pop(rng.randrange(len(live))))
        else:
            size = int(2 ** rng.uniform(6, 26))
            asked += size
            card.allocate(key, size)
            live.append(key)
        assert card.allocated <= card.reserved <= card.peak_reserved
    for key in live:
        card.release(key)
    assert card.allocated == 0
    card.empty_cache()
    assert card.reserved == 0


@pytest.mark.parametrize("allocator", [SimulatedAllocator, ExpandableAllocator])
def test_no_two_live_blocks_overlap(allocator: type[SimulatedAllocator]) -> None:
    rng = random.Random(3)
    card, live = allocator(), []
    for key in range(800):
        if live and rng.random() < 0.45:
            card.release(live.pop(rng.randrange(len(live))))
        else:
            card.allocate(key, int(2 ** rng.uniform(8, 25)))
            live.append(key)
        spans = sorted((block.address, block.address + block.size) for block in card._live.values())
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
