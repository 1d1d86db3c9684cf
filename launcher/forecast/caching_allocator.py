"""Simulates how much of a card PyTorch's CUDA caching allocator would reserve for a sequence of allocations. Pure Python, no torch.

The rules are those of c10/cuda/CUDACachingAllocator.cpp (torch 2.15). Sizes are rounded to 512 B. Up to 1 MiB comes from segments of
2 MiB (the small pool), less than 10 MiB from segments of 20 MiB, more from a segment of its own, rounded to 2 MiB. The best fitting
free block is taken, and split where more than 1 MiB would be left of it (small pool: 512 B). Neighbours that are free merge. A segment
goes back to the driver only where memory has run out; then the allocation is tried once more. Segments that expand:
``expandable_segments.py``. tests/unit/pretended/test_audits.py holds both against the real allocator, byte by byte.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable
from dataclasses import dataclass

from launcher.shared.sizes import MIB

LEAST = 512
SMALL, SMALL_SEGMENT = 1 * MIB, 2 * MIB
LARGE_SEGMENT, LEAST_OWN, OWN_ROUNDED = 20 * MIB, 10 * MIB, 2 * MIB


class Full(MemoryError):
    """The card is full, even after every segment that holds nothing went back."""


@dataclass(slots=True, eq=False)
class Block:
    """Bytes in a row. In a list of free ones, in use, or not mapped, which only segments that expand know."""

    address: int
    size: int
    large: bool
    free: bool = True
    mapped: bool = True
    before: Block | None = None
    after: Block | None = None

    def link(self, before: Block | None, after: Block | None) -> None:
        """Puts the block between these two."""
        self.before, self.after = before, after
        if before is not None:
            before.after = self
        if after is not None:
            after.before = self

    def absorb_next(self) -> None:
        """The block behind this one becomes a part of it."""
        assert self.after is not None
        self.size += self.after.size
        self.link(self.before, self.after.after)


def rounded(size: int, to: int) -> int:
    """The next multiple of ``to``; ``to`` at least."""
    return max(to, -(-size // to) * to)


def segment_for(size: int) -> int:
    """Bytes of the segment that an allocation without a fitting block takes from the driver."""
    if size <= SMALL:
        return SMALL_SEGMENT
    return LARGE_SEGMENT if size < LEAST_OWN else rounded(size, OWN_ROUNDED)


class SimulatedAllocator:
    """The allocator of one card. ``capacity``: what it may reserve; None: without end."""

    def __init__(self, *, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.reserved = self.allocated = 0
        self.peak_reserved = self.peak_allocated = 0
        self.retries = 0
        """Times that cached segments went back because memory had run out."""
        self._free: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])  # small and large pool: (size, address), sorted
        self._at: dict[int, Block] = {}  # free blocks by address
        self._live: dict[Hashable, Block] = {}
        self._next_address = 0

    def allocate(self, key: Hashable, size: int) -> None:
        """Raises Full."""
        size = rounded(size, LEAST)
        large = size > SMALL
        block = self._best_fit(large, size) or self._from_driver(large, size)
        if self._splits(block, size):
            self._split(block, size)
        block.free = False
        self._live[key] = block
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)

    def release(self, key: Hashable) -> None:
        block = self._live.pop(key)
        self.allocated -= block.size
        if block.before is not None and self._listed(block.before):
            block = block.before
            self._take(block)
            block.absorb_next()
        self._put(self._with_next(block))

    def empty_cache(self) -> None:
        """``torch.cuda.empty_cache()``: segments that hold nothing go back."""
        for block in self._cached():
            if block.before is None and block.after is None:
                self._take(block)
                self.reserved -= block.size

    def _cached(self) -> list[Block]:
        return [self._at[address] for pool in self._free for _, address in pool]

    def _best_fit(self, large: bool, size: int) -> Block | None:
        """Out of the list."""
        pool = self._free[large]
        at = bisect_left(pool, (size, -1))
        return self._at.pop(pool.pop(at)[1]) if at < len(pool) else None

    def _listed(self, block: Block) -> bool:
        return block.free and block.mapped

    def _take(self, block: Block) -> None:
        pool = self._free[block.large]
        del pool[bisect_left(pool, (block.size, block.address))]
        del self._at[block.address]

    def _put(self, block: Block) -> None:
        block.free = True
        insort(self._free[block.large], (block.size, block.address))
        self._at[block.address] = block

    def _with_next(self, block: Block) -> Block:
        if block.after is not None and self._listed(block.after):
            self._take(block.after)
            block.absorb_next()
        return block

    def _splits(self, block: Block, size: int) -> bool:
        left = block.size - size
        return left > SMALL if block.large else left >= LEAST

    def _split(self, block: Block, size: int) -> None:
        rest = Block(block.address + size, block.size - size, block.large)
        block.size = size
        rest.link(block, block.after)
        self._put(rest)

    def _from_driver(self, large: bool, size: int) -> Block:
        """A block that holds ``size`` at least, in no list."""
        block = self._grown(large, size)
        if block is None:
            self.retries += 1
            self.empty_cache()
            block = self._grown(large, size)
        if block is None:
            raise Full(f"{size} bytes asked for; {self.allocated} allocated and {self.reserved} reserved of {self.capacity}")
        return block

    def _grown(self, large: bool, size: int) -> Block | None:
        """None where the card is full."""
        more = segment_for(size)
        if not self._may(more):
            return None
        self._reserve(more)
        block = Block(self._next_address, more, large)
        self._next_address += more + LARGE_SEGMENT
        return block

    def _may(self, more: int) -> bool:
        return self.capacity is None or self.reserved + more <= self.capacity

    def _reserve(self, more: int) -> None:
        self.reserved += more
        self.peak_reserved = max(self.peak_reserved, self.reserved)
