"""Decides how much of a device's budget stays free. Pure."""

from __future__ import annotations

import math

from autofit_launcher.shared.sizes import MIB, format_size

DEFAULT = {"cuda": 0.10, "cpu": 0.25}
"""Fraction of the budget, by the kind of device. Threads, figures and libraries' caches make a run on a CPU differ more from its trial."""
LEAST_BYTES = 64 * MIB
"""A CPU's budget keeps at least this much free, unless the headroom is 0: such differences have a size of their own."""


def cap_of(budget_bytes: int, headroom: float) -> int:
    """The cap of trials under a CPU's budget. ``headroom``: fraction of the budget that stays free."""
    cap = int(budget_bytes * (1 - headroom))
    return min(cap, budget_bytes - LEAST_BYTES) if headroom else cap


def budget_for(cap_bytes: int, headroom: float, *, kind: str = "cpu") -> int:
    """The smallest budget whose cap is at least ``cap_bytes``."""
    budget = math.ceil(cap_bytes / (1 - headroom))
    return max(budget, cap_bytes + LEAST_BYTES) if headroom and kind == "cpu" else budget


def words(budget_bytes: int, headroom: float, *, kind: str) -> str:
    """The headroom for people: ``25%``, or ``64 MiB`` if that is more."""
    if kind == "cpu" and headroom and budget_bytes * headroom < LEAST_BYTES:
        return format_size(LEAST_BYTES)
    return f"{headroom:.0%}"
