"""Gives the environment variables that decide how a trainer's memory is allocated, in the trial and in the full run alike."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from autofit_launcher.machine import nvml
from autofit_launcher.shared.orders import MALLOC_VALUE, MALLOC_VARIABLE

if TYPE_CHECKING:
    from autofit_launcher.machine.devices import Budget

VARIABLE = "PYTORCH_CUDA_ALLOC_CONF"
"""Every supported torch reads it, and 2.15 reads nothing else where it is set; PYTORCH_ALLOC_CONF is read since 2.9 only."""
VARIABLES = (VARIABLE, "PYTORCH_ALLOC_CONF")
"""Variables in which a person may have set something, in the order in which torch looks."""
MALLOC = {
    MALLOC_VARIABLE: MALLOC_VALUE, "MALLOC_TRIM_THRESHOLD_": MALLOC_VALUE, "ARROW_DEFAULT_MEMORY_POOL": "system",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "16", "LRU_CACHE_CAPACITY": "16",
}  # fmt: skip
"""Variables on a CPU. Arrow's own pool (mimalloc) reserves 1 GiB of data at its first table, and a budget counts what is reserved.
oneDNN keeps 1024 primitives, new ones for each shape: memory grows with the *variety* of a run's shapes, which no short trial has. A
YOLOv8n-obb of many sizes took 147 % of its trial so (survival's seed 26, 25 epochs), more than the quarter that stays free; with 16
processor seconds are the same within the noise."""


def allocator_environment(budget: Budget) -> dict[str, str]:
    """Variables that decide how memory is allocated: the same in the trial and in the full run.

    CPU: glibc gives every tensor back at once.

    CUDA: its cards, in the order of ranks, and expandable segments, unless the person's own environment says otherwise.
    Segments that can't grow fill a card with cache where shapes differ, and then a kernel that is loaded late finds no room. Not under WSL,
    whose drivers below R615 can't map them (pytorch#192330). The variable is always set: a script's own ``os.environ.setdefault`` finds it.
    """
    if budget.kind == "cpu":
        return MALLOC
    cards = nvml.told_to_cuda([one.uuid for one in budget.each], os.environ)
    return {**cards, VARIABLE: _segments(expandable=not budget.may_spill)}


def steps_back() -> bool:
    """Has no expandable segments in what this process starts from here on; False where the person has chosen, or it has none by now."""
    before, os.environ[VARIABLE] = os.environ.get(VARIABLE), _segments(expandable=False)
    return os.environ[VARIABLE] != before


def _segments(*, expandable: bool) -> str:
    """The person's settings with that beside them; theirs alone where they say it themselves."""
    said = next((os.environ[name] for name in VARIABLES if os.environ.get(name)), "")
    return said if "expandable_segments" in said else ",".join(filter(None, [said, f"expandable_segments:{expandable}"]))
