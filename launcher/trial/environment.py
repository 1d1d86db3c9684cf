"""The environment variables that set a trainer's memory allocator up."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from launcher.shared.allocator import BUFFERS, MALLOC, PRIMITIVES, VARIABLE, with_setting

if TYPE_CHECKING:
    from launcher.machine.devices import Budget


def allocator_environment(budget: Budget) -> dict[str, str]:
    """Variables that decide how memory is allocated: the same in the trial and in the full run.

    CPU: glibc gives every tensor back at once (``MALLOC``); oneDNN keeps few primitives (``PRIMITIVES``) and MKL no buffers
    (``BUFFERS``), unless the person's own environment says otherwise.

    CUDA: the one card, by its UUID, and expandable segments, unless the person's own environment says otherwise. Segments that can't grow
    fill a card with cache where shapes differ, and then a kernel that is loaded late finds no room. Not under WSL, whose drivers below
    R615 can't map them (pytorch#192330). The variable is always set: a script's own ``os.environ.setdefault`` finds it in the trial, and in
    the run, which is held by the same variable.
    """
    if budget.kind == "cpu":
        kept = {**PRIMITIVES, **BUFFERS}
        return {**MALLOC, **{name: value for name, value in kept.items() if name not in os.environ}}
    segments = with_setting(os.environ, "expandable_segments", str(not budget.may_spill))
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": budget.uuid, VARIABLE: segments}
