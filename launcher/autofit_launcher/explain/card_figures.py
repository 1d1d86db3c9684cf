"""Reads from a memory failure's message how much was asked for, held and free. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autofit_launcher.shared.memory_failures import asked_bytes
from autofit_launcher.shared.sizes import MIB, UNITS, format_size

_SIZE = r"(\d{1,12}(?:[.,]\d{1,3})?)([KMGT]?i?B|bytes)"
_FIGURES = {
    "asked": rf"(?:toallocate|Requested:){_SIZE}",
    "total": rf"{_SIZE}(?:total|ofwhich)|capaci?ty(?:of)?{_SIZE}|limit:{_SIZE}Free",
    "free": rf"{_SIZE}(?:is)?free(?!\()|Free\(accordingtoCUDA\):{_SIZE}",
    "allocated": rf"{_SIZE}(?:is)?(?:already)?allocated|allocated:{_SIZE}",
    "reserved": rf"{_SIZE}reservedintotal",
    "unallocated": rf"{_SIZE}(?:is)?reserved(?:byPyTorch)?butunallocated|{_SIZE}cached",  # "cached" up to PyTorch 1.3
    "allowed": rf"{_SIZE}allowed|maxallowed:{_SIZE}",
    "ours": rf"thisprocesshas{_SIZE}|{_SIZE}inusebythisprocess",
}
"""Words beside each figure, in a message without white space and quotes: people and terminals break it anywhere."""
_OTHERS = re.compile(rf"process\d+has{_SIZE}", re.IGNORECASE)
_UNITS = {unit.lower(): size for unit, size in UNITS.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class CardFigures:
    """A message's figures of a card's memory, in bytes; None: it doesn't say."""

    asked: int | None = None
    total: int | None = None
    free: int | None = None
    allocated: int | None = None
    """Bytes of PyTorch's live tensors."""
    reserved: int | None = None
    """Bytes held by PyTorch's allocator, in use or not."""
    allowed: int | None = None
    """A limit that the program set for itself."""
    ours: int | None = None
    """Bytes held by the process in all, its CUDA context and libraries included."""
    others: int | None = None
    """Bytes held by other processes, where the message names them, or as the rest of the card."""

    @property
    def idle(self) -> int | None:
        """Bytes reserved and not in use."""
        return self.reserved - self.allocated if self.reserved is not None and self.allocated is not None else None

    @property
    def contradict(self) -> bool:
        """True: over a quarter more was free than was asked for, and the program had set itself no limit."""
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


def read(message: str) -> CardFigures:
    text = re.sub(r"[\s>*`|]+", "", message)
    found = {name: _bytes(match) for name, pattern in _FIGURES.items() if (match := re.search(pattern, text, re.IGNORECASE))}
    told = {name: size for name, size in found.items() if size < 2**50}  # drivers say 2**34 GiB where they don't know
    asked = told.pop("asked", None) or asked_bytes(message)
    unallocated = told.pop("unallocated", None)
    if unallocated is not None and "allocated" in told:
        told.setdefault("reserved", told["allocated"] + unallocated)
    named = sorted(map(_bytes, _OTHERS.finditer(text)))
    if named and "ours" not in told:  # in a container it knows itself by another number
        told["ours"] = named.pop(next((at for at, size in enumerate(named) if size >= told.get("reserved", named[-1])), -1))
    total, free, held = told.get("total"), told.get("free"), told.get("ours", told.get("reserved"))
    rest = max(0, total - free - held) if total is not None and free is not None and held is not None else None
    return CardFigures(asked=asked, others=sum(named) if named else rest, **told)


def _bytes(match: re.Match[str]) -> int:
    number, unit = filter(None, match.groups())
    return int(float(number.replace(",", ".")) * _UNITS.get(unit.lower(), 1))
