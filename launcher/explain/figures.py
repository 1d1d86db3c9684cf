"""Reads from a memory failure's message how much was asked for, held and free. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from launcher.shared.memory_failures import asked_bytes
from launcher.shared.sizes import UNITS

_SIZE = r"([\d.]+) ([KMGT]?i?B|bytes)"
_TOTAL = re.compile(rf"{_SIZE} total capacity|total capacity of {_SIZE}")
_FREE = re.compile(rf"{_SIZE} free[;)]|of which {_SIZE} is free")
_ALLOCATED = re.compile(rf"{_SIZE} already allocated|{_SIZE} is allocated by PyTorch|MPS allocated: {_SIZE}")
_RESERVED = re.compile(rf"{_SIZE} reserved in total by PyTorch")
_UNALLOCATED = re.compile(rf"{_SIZE} (?:is reserved by PyTorch but unallocated|cached\))")
"""PyTorch up to 1.3 said "cached" for it."""
_ALLOWED = re.compile(rf"{_SIZE} allowed;|max allowed: {_SIZE}")
_OURS = re.compile(rf"this process has {_SIZE} memory in use")
_OTHERS = re.compile(rf"Process \d+ has {_SIZE} memory in use")


@dataclass(frozen=True, kw_only=True, slots=True)
class CardFigures:
    """A message's figures of a card's memory, in bytes; None: it doesn't say."""

    asked: int | None = None
    total: int | None = None
    free: int | None = None
    allocated: int | None = None
    """Bytes of PyTorch's live tensors."""
    reserved: int | None = None
    """Held by PyTorch's allocator, in use or not."""
    allowed: int | None = None
    """A limit that the program set for itself."""
    ours: int | None = None
    """Held by the process in all, its CUDA context and libraries included."""
    others: int | None = None
    """Held by other processes, where the message names them, or as the rest of the card."""

    @property
    def idle(self) -> int | None:
        """Reserved and not in use."""
        return self.reserved - self.allocated if self.reserved is not None and self.allocated is not None else None

    @property
    def contradict(self) -> bool:
        """More was free than was asked for."""
        return bool(self.asked and self.free and self.allowed is None and self.free > self.asked * 5 // 4)


def read(line: str, after: str = "") -> CardFigures:
    """``line``: the one that speaks of the failure. ``after``: those below it, onto which a terminal may have wrapped it."""
    text = f"{line} {after}" if _wrapped(line) else line
    allocated, unallocated = _of(_ALLOCATED, text), _of(_UNALLOCATED, text)
    reserved = _of(_RESERVED, text)
    if reserved is None and allocated is not None and unallocated is not None:
        reserved = allocated + unallocated
    total, free, ours = _of(_TOTAL, text), _of(_FREE, text), _of(_OURS, text)
    return CardFigures(
        asked=asked_bytes(text), total=total, free=free, allocated=allocated, reserved=reserved, allowed=_of(_ALLOWED, text), ours=ours,
        others=_others(text, total, free, ours if ours is not None else reserved),
    )  # fmt: skip


def _wrapped(line: str) -> bool:
    """Tells whether the message goes on in the next line."""
    return line.count("(") > line.count(")") or not line.rstrip().endswith((".", ")", "PYTORCH_CUDA_ALLOC_CONF"))


def _others(text: str, total: int | None, free: int | None, held: int | None) -> int | None:
    named = sorted(_bytes(match.group(1), match.group(2)) for match in _OTHERS.finditer(text))
    if named and held is not None and total is not None and sum(named) + held > total:  # in a container it knows itself by another number
        own = next((size for size in named if size >= held), 0)
        return sum(named) - own
    if named:
        return sum(named)
    if total is None or free is None or held is None:
        return None
    return max(0, total - free - held)


def _of(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    if match is None:
        return None
    number, unit = [group for group in match.groups() if group is not None]
    return _bytes(number, unit)


def _bytes(number: str, unit: str) -> int:
    return int(float(number) * UNITS.get(unit, 1))
