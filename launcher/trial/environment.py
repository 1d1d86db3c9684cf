"""The environment variables that set a trainer's memory allocator up."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launcher.ladder.rungs import Rung
    from launcher.machine.devices import Budget
from launcher.shared.allocator import BUFFERS, CHECKPOINTING, MALLOC, PRIMITIVES, VARIABLE, with_setting


def allocator_environment(budget: Budget, rung: Rung, *, shapes_vary: bool = False) -> dict[str, str]:
    """Variables that decide how memory is allocated: the same in the trial and in the full run.

    CPU: glibc gives every tensor back at once (``MALLOC``); oneDNN keeps few primitives (``PRIMITIVES``) and MKL no buffers
    (``BUFFERS``), unless the person's own environment says otherwise. CUDA: the one card, by its UUID, and expandable
    segments where batches differ in shape and on the rungs that checkpoint, unless the person's own environment says otherwise.
    """
    if budget.kind == "cpu":
        kept = {**PRIMITIVES, **BUFFERS}
        return {**MALLOC, **{name: value for name, value in kept.items() if name not in os.environ}}
    env = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": budget.uuid}
    if rung.values.get(CHECKPOINTING) or shapes_vary:
        env[VARIABLE] = with_setting(os.environ, "expandable_segments", "True")
    return env
