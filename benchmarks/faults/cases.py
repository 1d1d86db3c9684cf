"""A seed -> a case: a trainer, a fault, when it is done, and what the recipe says of recovery. Pure; the same seed, the same case.

As many seeds in a row as there are pairs hold every fault with every trainer that can have it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GENERATOR = 2
TRAINERS = ("script", "text", "yolo")
FAULTS: Mapping[str, tuple[str, ...]] = {
    "memory": TRAINERS,  # taken away at any time
    "memory_validating": TRAINERS,
    "memory_saving": ("script", "text"),
    "kill_trainer": TRAINERS,
    "kill_worker": ("script",),  # of the data loader
    "kill_autofit": TRAINERS,
    "corrupt_checkpoint": TRAINERS,  # the trainer killed, and its newest checkpoint torn
    "unwritable": TRAINERS,  # a checkpoint that can't be written to its end, as on a full disk
    "hang": TRAINERS,
    "nan": ("script",),
    "sigterm": TRAINERS,
    "sighup": TRAINERS,
    "sigint": TRAINERS,
    "two": TRAINERS,  # a killed trainer, and memory taken from the attempt after it
    "small_shm": ("script",),  # others fill /dev/shm, 64 MiB as in a container, while a loader's worker uses it
    "few_files": ("script", "text"),  # no file more may be opened
    "group_memory": TRAINERS,  # a control group that leaves it next to no memory: the kernel kills
    "small_disk": TRAINERS,  # the run folder's disk is filled by others, and freed before `autofit resume`
    "kill_saving": ("script", "text"),  # while a checkpoint is written
    "kill_loading": TRAINERS,  # and again while the next attempt starts and loads it
    "none": TRAINERS,  # undisturbed: what the others' losses are held against
}
PAIRS = tuple((fault, trainer) for fault, trainers in FAULTS.items() for trainer in trainers)
INTERRUPTIONS = ("kill_autofit", "sigterm", "sighup", "sigint", "unwritable", "small_disk", "few_files")
"""After these a person says `autofit resume`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One run with one fault."""

    seed: int
    trainer: str
    fault: str
    at: float
    """How far the training is to be when the fault is done: a part of all its checkpoints."""
    delay_s: float
    """And so long after that."""
    corruption: str
    """cut, zeros or flip."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Of the recipe's section recover."""


def make(seed: int) -> Case:
    """The case of a seed."""
    rng = random.Random(f"faults {GENERATOR} {seed}")
    fault, trainer = PAIRS[seed * 17 % len(PAIRS)]  # 17 and the number of pairs have no common divisor: every pair once a round
    recover: dict[str, Any] = {
        "hang": {"stall_s": 20.0},
        "small_shm": {"stall_s": 20.0},
        "nan": {"on_nan": rng.choice(("stop", "roll_back")), "nan_reports": 2},
    }.get(fault, {})
    return Case(
        seed=seed,
        trainer=trainer,
        fault=fault,
        at=round(rng.uniform(0.1, 0.75), 3),
        delay_s=round(rng.uniform(0, 1.0), 3),
        corruption=rng.choice(("cut", "zeros", "flip")),
        overrides=recover,
    )
