"""Sizes, numbers and times for people: bytes inside, GiB outside. GB is 10**9 bytes and GiB is 2**30, everywhere."""

from __future__ import annotations

import re

KIB, MIB, GIB = 2**10, 2**20, 2**30

UNITS = {
    "": 1, "B": 1,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": 2**40,
}  # fmt: skip
"""Unit as it is written -> bytes."""
_BY_LOWER = {unit.lower(): unit for unit in UNITS}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def format_number(value: float) -> str:
    """A number for people: four digits and never an exponent; whole where it is whole or has four digits before the point."""
    return f"{value:.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:.4g}"


def parse_size(text: str | int) -> int:
    """``"16GiB"``, ``"16 GB"``, ``"800MiB"`` or plain bytes as an int of bytes. Raises ValueError with the reason.

    A lone "G" is refused, because people mean either.
    """
    match = _SIZE.fullmatch(str(text)) if isinstance(text, (str, int)) and not isinstance(text, bool) else None
    if match is None:
        raise ValueError(f"{text!r} is not a size; write it as 16GiB or 800MiB")
    number, written = match.groups()
    if (unit := _BY_LOWER.get(written.lower())) is None:  # a lone "G", too: people mean either
        raise ValueError(f"{text!r}: unit {written!r} is unknown; write GiB or MiB")
    if (size := int(float(number) * UNITS[unit])) <= 0:
        raise ValueError(f"{text!r} is not above zero")
    return size


def format_size(size: int) -> str:
    """Bytes for people: "15.9 GiB", "620 MiB", "12 KiB", "5 B"."""
    if abs(size) >= 0.9995 * GIB:
        return f"{size / GIB:.1f} GiB"
    if abs(size) >= MIB:
        return f"{size / MIB:.0f} MiB"
    return f"{size / KIB:.0f} KiB" if abs(size) >= KIB else f"{size} B"


def format_duration(seconds: float) -> str:
    """Writes a duration for people: 45 s, 3 min 05 s, 2 h 10 min, 3 days."""
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} days"
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
