"""Reads from a memory failure's message how much was asked for, held and free. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from launcher.shared.memory_failures import asked_bytes
from launcher.shared.sizes import MIB, UNITS, format_size

_SIZE = r"([\d.]+) ([KMGT]?i?B|bytes)"
_FIGURES = {
    "total": rf"{_SIZE} total capacity|total capacity of {_SIZE}",
    "free": rf"{_SIZE} free[;)]|of which {_SIZE} is free",
    "allocated": rf"{_SIZE} already allocated|{_SIZE} is allocated by PyTorch|MPS allocated: {_SIZE}",
    "reserved": rf"{_SIZE} reserved in total by PyTorch",
    "unallocated": rf"{_SIZE} (?:is reserved by PyTorch but unallocated|cached\))",  # "cached" up to PyTorch 1.3
    "allowed": rf"{_SIZE} allowed;|max allowed: {_SIZE}",
    "ours": rf"this process has {_SIZE} memory in use",
}
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

    @property
    def words(self) -> str:
        """The figures for people."""
        others = self.others if self.others and self.others >= 256 * MIB else None  # a few MiB of a card are always somebody's
        named = (
            ("asked for {}", self.asked),
            ("{} free", self.free),
            ("{} in all", self.total),
            ("{} allowed", self.allowed),
            ("{} in live tensors", self.allocated),
            ("{} held by PyTorch", self.reserved),
            ("{} held by this process", self.ours),
            ("{} by others, or CUDA's own" if self.ours is None else "{} by others", others),
        )
        return ", ".join(words.format(format_size(size)) for words, size in named if size is not None)


def read(line: str, after: str = "") -> CardFigures:
    """``line``: the one that speaks of the failure. ``after``: those below it, onto which a terminal may have wrapped it."""
    wrapped = line.count("(") > line.count(")") or not line.rstrip().endswith((".", ")", "PYTORCH_CUDA_ALLOC_CONF"))
    text = f"{line} {after}" if wrapped else line
    told = {name: _bytes(match) for name, pattern in _FIGURES.items() if (match := re.search(pattern, text))}
    unallocated = told.pop("unallocated", None)
    if unallocated is not None and "allocated" in told:
        told.setdefault("reserved", told["allocated"] + unallocated)
    return CardFigures(asked=asked_bytes(text), others=_others(text, told), **told)


def _others(text: str, told: dict[str, int]) -> int | None:
    total, free, held = told.get("total"), told.get("free"), told.get("ours", told.get("reserved"))
    named = sorted(map(_bytes, _OTHERS.finditer(text)))
    if named and held is not None and total is not None and sum(named) + held > total:  # in a container it knows itself by another number
        return sum(named) - next((size for size in named if size >= held), 0)
    if named:
        return sum(named)
    return max(0, total - free - held) if total is not None and free is not None and held is not None else None


def _bytes(match: re.Match[str]) -> int:
    number, unit = filter(None, match.groups())
    return int(float(number) * UNITS.get(unit, 1))
