"""How much of a CPU's budget is kept free. Pure."""

from __future__ import annotations

import math

LEAST_BYTES = 16 * 2**20
"""No less than this is kept free, save where no headroom is asked: two processes that do the same were seen up to 15 MiB apart, however
little they need (docs/survival.md)."""


def cap_of(budget_bytes: int, headroom: float) -> int:
    """What trials are held to under a CPU's budget. ``headroom``: the part of it that stays free."""
    cap = int(budget_bytes * (1 - headroom))
    return min(cap, budget_bytes - LEAST_BYTES) if headroom else cap


def budget_for(cap_bytes: int, headroom: float, *, kind: str = "cpu") -> int:
    """The least budget whose trials are held to so many bytes."""
    budget = math.ceil(cap_bytes / (1 - headroom))
    return max(budget, cap_bytes + LEAST_BYTES) if headroom and kind == "cpu" else budget


def words(budget_bytes: int, headroom: float, *, kind: str) -> str:
    """As a person is told of it: ``10%``, or ``16 MiB`` where that is more."""
    if kind == "cpu" and headroom and budget_bytes * headroom < LEAST_BYTES:
        return f"{LEAST_BYTES >> 20} MiB"
    return f"{headroom:.0%}"
