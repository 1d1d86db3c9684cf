"""How much of a CPU's budget is kept free. Pure."""

from __future__ import annotations

import math

LEAST_BYTES = 16 * 2**20
"""At least this much is kept free, unless the headroom is 0: identical processes were seen to differ by up to 15 MiB, however small
(docs/survival.md)."""


def cap_of(budget_bytes: int, headroom: float) -> int:
    """The cap of trials under a CPU's budget. ``headroom``: fraction of the budget that stays free."""
    cap = int(budget_bytes * (1 - headroom))
    return min(cap, budget_bytes - LEAST_BYTES) if headroom else cap


def budget_for(cap_bytes: int, headroom: float, *, kind: str = "cpu") -> int:
    """The smallest budget whose cap is at least ``cap_bytes``."""
    budget = math.ceil(cap_bytes / (1 - headroom))
    return max(budget, cap_bytes + LEAST_BYTES) if headroom and kind == "cpu" else budget


def words(budget_bytes: int, headroom: float, *, kind: str) -> str:
    """The headroom for people: ``10%``, or ``16 MiB`` if that is more."""
    if kind == "cpu" and headroom and budget_bytes * headroom < LEAST_BYTES:
        return f"{LEAST_BYTES >> 20} MiB"
    return f"{headroom:.0%}"
