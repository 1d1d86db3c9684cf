"""Simulates PyTorch's CUDA caching allocator with ``expandable_segments:True``. Pure Python, no torch.

Each pool has one long range of addresses, of which pages (2 MiB in the small pool, 20 in the large) are mapped when they are wanted. A
range is a row of blocks that are in use, free, or not mapped. Where memory has run out, whole pages of free blocks are unmapped,
wherever they lie, and mapped again later. Source: try_allocate_expandable_block, find_expandable_block, map_block and unmap_block of
c10/cuda/CUDACachingAllocator.cpp (torch 2.15).
"""

from __future__ import annotations

from bisect import bisect_left

from launcher.forecast.caching_allocator import LARGE_SEGMENT, LEAST, SMALL_SEGMENT, Block, SimulatedAllocator, rounded, segment_for

_RANGE = LARGE_SEGMENT << 30
"""Bytes of a pool's range: more than any run takes, and whole pages of both sizes."""


class ExpandableAllocator(SimulatedAllocator):
    """The allocator of one card. ``capacity``: what it may reserve; None: without end."""

    def __init__(self, *, capacity: int | None = None) -> None:
        super().__init__(capacity=capacity)
        self._heads = [Block(large * _RANGE, 0, bool(large), free=False) for large in (False, True)]
        for head in self._heads:
            Block(head.address, _RANGE, head.large, mapped=False).link(head, None)

    def empty_cache(self) -> None:
        """``torch.cuda.empty_cache()``: whole pages of free blocks are unmapped."""
        for block in self._cached():
            self._unmap(block)

    def _best_fit(self, large: bool, size: int) -> Block | None:
        """A block counts with what it could grow to, so that others are filled before it."""
        pool = self._free[large]
        at = bisect_left(pool, (size, -1))
        while at + 1 < len(pool) and self._could_be(large, at + 1) < self._could_be(large, at):
            at += 1
        return self._at.pop(pool.pop(at)[1]) if at < len(pool) else None

    def _could_be(self, large: bool, at: int) -> int:
        block = self._at[self._free[large][at][1]]
        return block.size + (block.after.size if block.after is not None and not block.after.mapped else 0)

    def _splits(self, block: Block, size: int) -> bool:
        return block.size - size >= LEAST

    def _grown(self, large: bool, size: int) -> Block | None:
        if not self._may(segment_for(size)):
            return None
        block = self._place(large, size)
        if block.mapped:
            self._take(block)
        else:
            self._map(block, size)
            self._with_next(block)
        while block.size < size:
            assert block.after is not None, "a range has an end that no run comes to"
            self._map(block.after, size - block.size)
            block.absorb_next()
            self._with_next(block)
        return block

    def _place(self, large: bool, size: int) -> Block:
        """Where the first blocks that are free or not mapped, one of them not mapped, are long enough in a row."""
        block = self._heads[large].after
        while block is not None:
            if not block.mapped:
                start = block.before if block.before is not None and block.before.free else block
                if _room(start, size):
                    return start
            block = block.after
        raise AssertionError("a range has an end that no run comes to")

    def _map(self, block: Block, size: int) -> None:
        """The beginning of a block that isn't mapped, in whole pages; the block is in no list then."""
        size = min(block.size, rounded(size, _page(block)))
        if size < block.size:
            rest = Block(block.address + size, block.size - size, block.large, mapped=False)
            block.size = size
            rest.link(block, block.after)
        block.mapped = True
        self._reserve(size)

    def _unmap(self, block: Block) -> None:
        """What lies before and behind a free block's whole pages stays free."""
        page, end = _page(block), block.address + block.size
        first, last = -(-block.address // page) * page, end // page * page
        if first >= last:
            return
        self._take(block)
        if first > block.address:
            self._kept(Block(block.address, first - block.address, block.large), block.before, block)
        if last < end:
            self._kept(Block(last, end - last, block.large), block, block.after)
        block.address, block.size, block.mapped = first, last - first, False
        self.reserved -= block.size
        if block.before is not None and not block.before.mapped:
            block = block.before
            block.absorb_next()
        if block.after is not None and not block.after.mapped:
            block.absorb_next()

    def _kept(self, block: Block, before: Block | None, after: Block | None) -> None:
        block.link(before, after)
        self._put(block)


def _page(block: Block) -> int:
    return LARGE_SEGMENT if block.large else SMALL_SEGMENT


def _room(start: Block, size: int) -> bool:
    """Whether blocks in a row that nobody uses hold so much."""
    block: Block | None = start
    while size > 0 and block is not None and block.free:
        size -= block.size
        block = block.after
    return size <= 0
