"""The orders that a trial's child gets, as a frozen value read from ``orders.json``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import files

HELD = "AUTOFIT_HELD"
"""Environment variable of a full run: the folder in which its processes tell the base above which they hold themselves to the budget."""
STEPS = ".steps"
"""Suffix of the files there in which they tell their optimizer steps: {"steps": [of each that stepped], "ended": no more come}."""
REPORT = "report.json"
"""Name of a report in its trial's folder; of a command's several ranks each has one in a folder of its own, too."""
RANKS = "ranks"
"""Folder in a trial's that has one for each of several ranks, by its number."""
PRELOADED = (
    "ACCUMULATE", "ACCUMULATE_SPLIT", "ACCUMULATE_LOSS", "CHECKPOINTING", "FIELDS", "TRAINER_KEPT_IN", "TRAINER_RESUME", "UPDATE",
    "YOLO_EXACT",
)  # fmt: skip
"""Environment variables that code reads which is loaded into a command before its program (``trainers/NAME/native``)."""
FORKS = "AUTOFIT_FORKS"
"""Environment variable of a trial: the socket of the process that forks its command (``inside.forks``), with its number."""
SAVES = "AUTOFIT_SAVES"
"""Environment variable of a full run: modules of ours, comma separated, whose ``install`` makes its checkpoints whole."""
LABELS = "AUTOFIT_LABELS"
"""Environment variable: the launch's folder of labels that a trial has scanned for all, each file under the path of where it belongs."""
FAILED = "failed"
"""A file in the folder of a twin whose command ended with another status than 0."""
TEMPORARY = "AUTOFIT_TEMPORARY"
"""Environment variable: the folder, with a short path, for what a launcher's processes write for a moment. It goes with the launcher."""
MALLOC_VARIABLE = "MALLOC_MMAP_THRESHOLD_"
MALLOC_VALUE = "65536"
"""glibc raises its mmap threshold by itself and then keeps freed tensors on a fragmenting heap: half of a budget can go there.
With this threshold every tensor goes back to the kernel at once, and a cap means live bytes (measured: the largest batch under
RLIMIT_DATA then repeats to the unit). Read by glibc at process start only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Orders:
    """The orders of one trial, spelled out for the child."""

    module: str
    """Dotted name of the module whose ``run(orders, recorder)`` is this trainer's trial."""
    folder: str
    """The trial's own folder: ``report.json`` is written here, and ``scratch/`` takes whatever the trainer must write."""
    device: str
    """"cpu" or "cuda"."""
    device_uuid: str = ""
    """The card, as NVML and CUDA_VISIBLE_DEVICES name it; the child sees only this one, as cuda:0, and makes sure of it."""
    idle_free_bytes: int = 0
    """CUDA: what the driver said was free on the card just before the child started. What is gone from it since, and is not the
    allocator's, is what the child holds outside the allocator: context, kernels, libraries. 0: nobody looked."""
    may_spill: bool = False
    """The driver gives host memory where the card's is full (WSL, Windows): only time per sample shows it."""
    searches: bool = True
    """True: the program decides on ``cudnn.benchmark``. False: it is off."""
    cap_bytes: int
    """The limit that the trial must stay below on its device: budget x (1 - headroom)."""
    ceiling_bytes: int = 0
    """The bytes at which allocations fail (``Budget.ceiling_bytes``); 0: at the cap."""
    accumulation: int
    """Gradient accumulation steps of this rung in the full run."""
    steps: int = 2
    """Optimizer steps before validation; at least 2, since optimizer state exists only after the first."""
    validation_batches: int = 2
    steps_after: int = 1
    """Optimizer steps after validation; 0: the trial ends with it, before anything is saved (a plan's)."""
    payload: dict[str, Any]
    """The trainer's own words, from its adapter."""
    cards: list[dict[str, Any]] = field(default_factory=list)
    """The orders of each process that a command starts on several cards, as far as they differ (its card, its cap)."""
    main: str = ""
    """The trial's folder, in the orders of a second process: both write there what the trainer writes."""
    cache: str = ""
    """Folder that the launch's trials and twins have in common; empty: the trial's scratch."""
    resumes: bool = False
    """A second process goes on from the checkpoint that the first has left there, for an optimizer step at least (``Phase.RESUME``)."""

    def write(self, path: Path) -> None:
        files.replace_json(path, self)

    @classmethod
    def read(cls, path: Path) -> Orders:
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    @property
    def trial_accumulation(self) -> int:
        """Micro-batches per optimizer step in a trial: the second is the peak, and what comes after it is no higher."""
        return min(self.accumulation, 2)

    @property
    def halves(self) -> int:
        """Micro-batches of half the samples at the end, where the driver may spill: their time per sample is held against whole ones'. The
        first warms up."""
        return 2 if self.may_spill and not self.resumes else 0

    @property
    def report_path(self) -> Path:
        return Path(self.folder) / REPORT

    @property
    def scratch(self) -> Path:
        return Path(self.main or self.folder) / "scratch"


VARIABLE = "AUTOFIT_PROBE"
"""Environment variable with the path of the settings' file; inherited by every child process."""
SHIM = Path(__file__).parents[1] / "inside" / "shim"
"""Folder whose ``sitecustomize`` loads the probe."""

LEAST_STEPS = 2
"""Optimizer steps before validation, at least: with the first one its state comes, and the second shows the peak beside it."""
LEAST_VALIDATION = 4
"""Validation batches that are let through where there are so many: growth from batch to batch shows from the third on."""
VARIETY, VARIETY_S = 8, 0.5
"""Micro-batches of training that are let through where so many come in that time: a short peak shows in one of several looks ..."""
VARIETY_OF_LENGTHS, VARIETY_LENGTHS_S = 24, 25.0
"""... or where lengths differ."""
TURN = "turn"
"""File in the folder of what was begun ahead, which says that the device is its own, and how many bytes of a card were free then."""
CAME, GONE = ".came", 75
"""Ending of the file that says that the process has come to where it waits; its exit status where it ends there."""
PLAIN, RESUMED = "plainly", "resumed"
"""Folders of a trial: of what is run plainly after a crash (the phase that is shown then, too), and of what goes on from a checkpoint."""
LOADED = "loaded"
"""File among the records that the first process makes into which the probe has come."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeSettings:
    """The settings of an attempt at a trial, or (``budget_only``) of a full run that is held to a budget."""

    records: str
    """Folder that gets PID/report.json of each process that trains."""
    orders: dict[str, Any] = field(default_factory=dict)
    """``autofit_launcher.common.orders.Orders`` as a dictionary."""
    overlay: str = ""
    """Folder that takes what the script writes; empty: writes go where they go."""
    kept: tuple[str, ...] = ()
    """Folders beside the overlay's that are written to as they are: the trial's own temporary one."""
    mode: str = "cut"
    """cut: a pass over the training data ends after the steps wanted. full: it goes on to its length, fast-forwarded."""
    budget_only: bool = False
    """True: only the budget is taken, at the same moment as in a trial; nothing is watched, cut or redirected."""

    turn: str = ""
    """File that is there when the device is this process's; it tells that it has come so far by ``turn`` and ``CAME``. Empty: at once."""
    forks: str = ""
    """Socket at which this process serves those who would start its command (``inside.forks``); empty: it is the command."""
    same: dict[str, Any] = field(default_factory=dict)
    """The orders of a twin (``inside.same.twin.TwinOrders``); empty: this is none."""

    def write(self, path: Path) -> None:
        files.replace_json(path, self)  # whole: another rank may read it

    @classmethod
    def read(cls, path: Path) -> ProbeSettings:
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def injected(settings: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Variables that load the probe into every Python process of a command, before what its own environment loads."""
    return {"PYTHONPATH": os.pathsep.join([str(SHIM), *filter(None, [env.get("PYTHONPATH")])]), VARIABLE: str(settings)}
