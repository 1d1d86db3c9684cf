"""Gives the environment variables that decide how a trainer's memory is allocated, in the trial and in the full run alike."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from launcher.shared.orders import MALLOC_VALUE, MALLOC_VARIABLE

if TYPE_CHECKING:
    from launcher.machine.devices import Budget

VARIABLE = "PYTORCH_CUDA_ALLOC_CONF"
"""Every supported torch reads it, and 2.15 reads nothing else where it is set; PYTORCH_ALLOC_CONF is read since 2.9 only."""
VARIABLES = (VARIABLE, "PYTORCH_ALLOC_CONF")
"""Where a person may have set something, in the order in which torch looks."""
FRACTION = "per_process_memory_fraction"
FRACTION_SINCE = (2, 10)
"""torch that knows ``FRACTION`` in the variable (pytorch#161035, under review until after 2.9 was branched). An older one refuses to
start on a word it doesn't know, so there a process is held by a module of ours (``adapter.commands.held``)."""
MALLOC = {
    MALLOC_VARIABLE: MALLOC_VALUE, "MALLOC_TRIM_THRESHOLD_": MALLOC_VALUE, "ARROW_DEFAULT_MEMORY_POOL": "system",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "16", "LRU_CACHE_CAPACITY": "16",
}  # fmt: skip
"""On a CPU. Arrow's own pool (mimalloc) reserves 1 GiB of a process's data at its first table, and a budget counts what is reserved.
oneDNN keeps 1024 primitives, new ones for each shape: memory grows with the *variety* of a run's shapes, which no short trial has. A
YOLOv8n-obb of many sizes took 147 % of its trial so (survival's seed 26, 25 epochs), more than the quarter that stays free; with 16
processor seconds are the same within the noise."""


def allocator_environment(budget: Budget) -> dict[str, str]:
    """Variables that decide how memory is allocated: the same in the trial and in the full run.

    CPU: glibc gives every tensor back at once.

    CUDA: its cards by their UUIDs, in the order of ranks, and expandable segments, unless the person's own environment says otherwise.
    Segments that can't grow fill a card with cache where shapes differ, and then a kernel that is loaded late finds no room. Not under WSL,
    whose drivers below R615 can't map them (pytorch#192330). The variable is always set: a script's own ``os.environ.setdefault`` finds it
    in the trial, and in the run, which is held by the same variable.
    """
    if budget.kind == "cpu":
        return MALLOC
    segments = with_setting(os.environ, "expandable_segments", str(not budget.may_spill))
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(one.uuid for one in budget.each), VARIABLE: segments}


def with_setting(environ: Mapping[str, str], key: str, value: str) -> str:
    """What the person's settings come to with one more; theirs where they set it themselves."""
    said = _said(environ)
    return said if key in said else ",".join(filter(None, [said, f"{key}:{value}"]))


def _said(environ: Mapping[str, str]) -> str:
    return next((environ[name] for name in VARIABLES if environ.get(name)), "")


def holding(environ: Mapping[str, str], fraction: float) -> dict[str, str]:
    """The variable that lets PyTorch's allocator have at most this fraction of the card, beside what else it says."""
    return {VARIABLE: ",".join(filter(None, [_said(environ), f"{FRACTION}:{fraction:.6f}"]))}


def knows_fraction(torch_version: str | None) -> bool:
    """Whether this torch takes ``FRACTION`` from the variable; False where its version isn't known."""
    numbers = (torch_version or "").split(".")[:2]
    return len(numbers) == 2 and all(number.isdecimal() for number in numbers) and tuple(map(int, numbers)) >= FRACTION_SINCE


def torch_version() -> str | None:
    """Of the torch beside the launcher, which is the built-in trainers'; None where there is none."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None
