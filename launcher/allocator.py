"""A budget and a rung -> the variables that decide how memory is allocated, in the trial and in the full run alike.

The trainer's process reads the words for glibc from here, so nothing but the standard library is imported.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launcher.devices import Budget
    from launcher.ladder import Rung

CHECKPOINTING = "checkpointing"
"""The wheel whose rungs get expandable segments."""
MALLOC_VARIABLE = "MALLOC_MMAP_THRESHOLD_"
MALLOC_VALUE = "65536"
"""glibc raises its mmap threshold by itself and then keeps freed tensors on a fragmenting heap: half of a budget can go there.
With this threshold every tensor goes back to the kernel at once, and a cap means live bytes (measured: the largest batch under
RLIMIT_DATA then repeats to the unit). Read by glibc at process start only."""
MALLOC = {MALLOC_VARIABLE: MALLOC_VALUE, "MALLOC_TRIM_THRESHOLD_": MALLOC_VALUE}


def allocator_environment(budget: Budget, rung: Rung) -> dict[str, str]:
    """Variables that decide how memory is allocated: the same in the trial and in the full run.

    CPU: glibc gives every tensor back at once (``MALLOC``). CUDA: cards numbered as NVML does, and expandable segments on the
    rungs that checkpoint, unless the user's own environment says otherwise.
    """
    if budget.kind == "cpu":
        return dict(MALLOC)
    env = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": str(budget.index)}
    if rung.values.get(CHECKPOINTING):
        name = allocator_variable(os.environ, importlib.metadata.version("torch"))
        said = os.environ.get(name, "")
        env[name] = said if "expandable_segments" in said else ",".join(filter(None, [said, "expandable_segments:True"]))
    return env


def allocator_variable(environ: Mapping[str, str], torch_version: str) -> str:
    """The variable that this torch reads its allocator's settings from: the person's own where they set one.

    PYTORCH_ALLOC_CONF is the primary name since 2.9; PYTORCH_CUDA_ALLOC_CONF is read by all versions (c10/core/AllocatorConfig.h).
    """
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        if environ.get(name):
            return name
    major, minor = (int(part) for part in torch_version.split(".")[:2])
    return "PYTORCH_ALLOC_CONF" if (major, minor) >= (2, 9) else "PYTORCH_CUDA_ALLOC_CONF"
