"""The settings of a probe, as a frozen value read from a JSON file. Standard library only."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import files

VARIABLE = "AUTOFIT_PROBE"
"""Environment variable with the path of the settings' file; inherited by every child process."""
SHIM = Path(__file__).parents[1] / "inside" / "shim"
"""Folder whose ``sitecustomize`` loads the probe."""

LEAST_STEPS = 2
"""Optimizer steps before validation, at least: with the first one its state comes, and the second shows the peak beside it."""
LEAST_VALIDATION = 4
"""Validation batches that are let through where there are so many: growth from batch to batch shows from the third on."""
VARIETY, VARIETY_S = 8, 6.0
"""Micro-batches of training that are let through where they come quickly (a peak that lasts shorter than a look at the memory shows in one
of several), within so many seconds ..."""
VARIETY_OF_LENGTHS, VARIETY_LENGTHS_S = 24, 25.0
"""... or where lengths differ."""
LOADED = "loaded"
"""File among the records that the first process makes into which the probe has come."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeSettings:
    """The settings of an attempt at a trial, or (``budget_only``) of a full run that is held to a budget."""

    records: str
    """Folder that gets PID/report.json of each process that trains."""
    orders: dict[str, Any] = field(default_factory=dict)
    """``autofit_launcher.shared.orders.Orders`` as a dictionary."""
    overlay: str = ""
    """Folder that takes what the script writes; empty: writes go where they go."""
    kept: tuple[str, ...] = ()
    """Folders beside the overlay's that are written to as they are: the trial's own temporary one."""
    mode: str = "cut"
    """cut: a pass over the training data ends after the steps wanted. full: it goes on to its length, fast-forwarded."""
    budget_only: bool = False
    """True: only the budget is taken, at the same moment as in a trial; nothing is watched, cut or redirected."""

    same: dict[str, Any] = field(default_factory=dict)
    """The orders of a twin (``inside.same.twin.TwinOrders``); empty: this is none."""

    def write(self, path: Path) -> None:
        files.replace(path, json.dumps(dataclasses.asdict(self), indent=1))  # whole: another rank may read it

    @classmethod
    def read(cls, path: Path) -> ProbeSettings:
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def injected(settings: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Variables that load the probe into every Python process of a command, before what its own environment loads."""
    return {"PYTHONPATH": os.pathsep.join([str(SHIM), *filter(None, [env.get("PYTHONPATH")])]), VARIABLE: str(settings)}
