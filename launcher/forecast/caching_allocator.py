"""Simulates how much of a card PyTorch's CUDA caching allocator would reserve for a sequence of allocations. Pure Python, no torch.

The rules are those of c10/cuda/CUDACachingAllocator.cpp (torch 2.15). Sizes are rounded to 512 B. Up to 1 MiB comes from segments of
2 MiB (the small pool), less than 10 MiB from segments of 20 MiB, more from a segment of its own, rounded to 2 MiB. The best fitting
free block is taken, and split where more than 1 MiB would be left of it (small pool and expandable segments: 512 B). Neighbours that
are free merge. A segment goes back to the driver only where memory has run out; then the allocation is tried once more. With
expandable segments each pool has one segment, which grows by pages of 2 and 20 MiB.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable
from dataclasses import dataclass

from launcher.shared.sizes import MIB

LEAST = 512
SMALL, SMALL_SEGMENT = 1 * MIB, 2 * MIB
LARGE_SEGMENT, LEAST_OWN, OWN_ROUNDED = 20 * MIB, 10 * MIB, 2 * MIB
_FAR = 1 << 60
"""Between the addresses of the two pools' expandable segments."""


class Full(MemoryError):
    """The card is full, even after every segment that holds nothing went back."""


@dataclass(slots=True, eq=False)
class _Block:
    address: int
    size: int
    large: bool
    free: bool = True
    before: _Block | None = None
    after: _Block | None = None


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

    def __init__(self, *, capacity: int | None = None, expandable: bool = False) -> None:
        self.capacity, self.expandable = capacity, expandable
        self.reserved = self.allocated = 0
        self.peak_reserved = self.peak_allocated = 0
        self.retries = 0
        """Times that cached segments went back because memory had run out."""
        self._free: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])  # small and large pool: (size, address), sorted
        self._at: dict[int, _Block] = {}  # free blocks by address
        self._live: dict[Hashable, _Block] = {}
        self._next_address = 0
        self._last: list[_Block | None] = [None, None]  # expandable: the end of each pool's one segment

    def allocate(self, key: Hashable, size: int) -> None:
        """Raises Full."""
        size = rounded(size, LEAST)
        large = size > SMALL
        block = self._best_fit(large, size) or self._grown(large, size)
        if self._splits(block, size):
            self._split(block, size)
        block.free = False
        self._live[key] = block
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)

    def release(self, key: Hashable) -> None:
        block = self._live.pop(key)
        self.allocated -= block.size
        if (before := block.before) is not None and before.free:
            self._take(before)
            block = self._merged(before, block)
        if (after := block.after) is not None and after.free:
            self._take(after)
            block = self._merged(block, after)
        self._put(block)

    def empty_cache(self) -> None:
        """``torch.cuda.empty_cache()``: segments that hold nothing go back; of an expandable one, its free end."""
        for pool in self._free:
            for _, address in list(pool):
                block = self._at[address]
                whole = block.after is None and (self.expandable or block.before is None)
                if not whole:
                    continue
                self._take(block)
                self.reserved -= block.size
                if block.before is not None:
                    block.before.after = None
                if self.expandable:
                    self._last[block.large] = block.before

    # -- inside

    def _best_fit(self, large: bool, size: int) -> _Block | None:
        pool = self._free[large]
        at = bisect_left(pool, (size, -1))
        return self._at.pop(pool.pop(at)[1]) if at < len(pool) else None

    def _take(self, block: _Block) -> None:
        pool = self._free[block.large]
        del pool[bisect_left(pool, (block.size, block.address))]
        del self._at[block.address]

    def _put(self, block: _Block) -> None:
        block.free = True
        insort(self._free[block.large], (block.size, block.address))
        self._at[block.address] = block

    def _splits(self, block: _Block, size: int) -> bool:
        left = block.size - size
        return left >= LEAST if self.expandable or not block.large else left > SMALL

    def _split(self, block: _Block, size: int) -> None:
        rest = _Block(block.address + size, block.size - size, block.large, before=block, after=block.after)
        if block.after is not None:
            block.after.before = rest
        if self._last[block.large] is block:
            self._last[block.large] = rest
        block.after, block.size = rest, size
        self._put(rest)

    def _merged(self, first: _Block, second: _Block) -> _Block:
        first.size += second.size
        first.after = second.after
        if second.after is not None:
            second.after.before = first
        if self._last[first.large] is second:
            self._last[first.large] = first
        return first

    def _grown(self, large: bool, size: int) -> _Block:
        """A block from the driver, which holds ``size`` at least."""
        if not self._may(self._wanted(large, size)):
            self.retries += 1
            self.empty_cache()
        more = self._wanted(large, size)
        if not self._may(more):
            raise Full(f"{size} bytes asked for; {self.allocated} allocated and {self.reserved} reserved of {self.capacity}")
        self.reserved += more
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return self._longer(large, more) if self.expandable else self._new(large, more)

    def _may(self, more: int) -> bool:
        return self.capacity is None or self.reserved + more <= self.capacity

    def _wanted(self, large: bool, size: int) -> int:
        if not self.expandable:
            return segment_for(size)
        last = self._last[large]
        have = last.size if last is not None and last.free else 0
        return rounded(size - have, LARGE_SEGMENT if large else SMALL_SEGMENT)

    def _new(self, large: bool, size: int) -> _Block:
        block = _Block(self._next_address, size, large)
        self._next_address += size + LARGE_SEGMENT
        return block

    def _longer(self, large: bool, more: int) -> _Block:
        """The free end of the pool's one segment, with ``more`` bytes added."""
        last = self._last[large]
        if last is not None and last.free:
            self._take(last)
            last.size += more
            return last
        block = _Block(last.address + last.size if last is not None else large * _FAR, more, large, before=last)
        if last is not None:
            last.after = block
        self._last[large] = block
        return block
