"""A seed -> a case: a trainer, a fault, when and to what it is done, how hard, and what the recipe says of recovery. Pure; the same seed,
the same case.

As many seeds in a row as there are pairs hold every fault with every trainer that can have it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GENERATOR = 3
"""Of rows with an earlier one only the fault is known, not its moment and amount."""
TRAINERS = ("script", "text", "yolo")
ALL = (*TRAINERS, "ranks", "folders")
"""With a script of two ranks under torchrun, and one whose checkpoints are accelerate's folders."""
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
    "small_shm": TRAINERS,  # others fill /dev/shm, 64 MiB as in a container, while a loader's worker uses it
    "few_files": ALL,  # next to no file more may be opened
    "group_memory": ALL,  # a control group that leaves it next to no memory: the kernel kills
    "small_disk": ALL,  # the run folder's disk is filled by others, and freed soon after, or before `autofit resume`
    "kill_saving": ALL,  # while a checkpoint is written
    "kill_loading": ALL,  # and again while the next attempt starts and loads it
    "none": ALL,  # undisturbed: what the others' losses are held against
}
PAIRS = tuple((fault, trainer) for fault, trainers in FAULTS.items() for trainer in trainers)
INTERRUPTIONS = ("kill_autofit", "sigterm", "sighup", "sigint", "unwritable", "small_disk", "few_files")
"""After these a person says `autofit resume`; after one in a trial, which came to no run, `autofit train` once more."""
MOMENTS: Mapping[str, tuple[str, ...]] = {
    "small_shm": ("launch", "training", "loading"),
    "few_files": ("launch", "trial", "training", "validating", "saving", "loading"),
    "group_memory": ("trial", "training", "validating", "saving", "loading"),
    "small_disk": ("trial", "training", "validating", "saving", "loading"),
    "kill_saving": ("saving",),
    "kill_loading": ("loading",),
}
"""When such a fault is done: as autofit is launched, in a trial, in a phase of the run, or while an attempt that goes on loads."""


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
    moment: str = ""
    """One of the fault's ``MOMENTS``; empty where it has none."""
    amount: float = 0.0
    """How much is left of what is taken away, from 0 to 1."""
    whom: str = "trainer"
    """What is killed: the trainer's own process, the last one below it (a rank, a worker), or all of them and autofit as well."""
    brief: bool = False
    """A disk that is free again a moment later."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Of the recipe's section recover."""


def make(seed: int) -> Case:
    """The case of a seed."""
    rng = random.Random(f"faults {GENERATOR} {seed}")
    fault, trainer = PAIRS[seed * 17 % len(PAIRS)]  # 17 and the number of pairs have no common divisor: every pair once a round
    recover: dict[str, Any] = {
        "hang": {"stall_s": 20.0},
        "small_shm": {"stall_s": 20.0},
        "nan": {"nan_reports": rng.choice((2, 3))},
    }.get(fault, {})
    moments = MOMENTS.get(fault, ("",))
    early = fault in MOMENTS and rng.random() < 0.4  # before anything was saved, or while the first is
    return Case(
        seed=seed,
        trainer=trainer,
        fault=fault,
        at=0.0 if early else round(rng.uniform(0.1, 0.75), 3),
        delay_s=round(rng.uniform(0, 1.0), 3),
        corruption=rng.choice(("cut", "zeros", "flip")),
        moment=moments[(seed // len(PAIRS) + PAIRS.index((fault, trainer))) % len(moments)],  # each in its turn
        amount=round(rng.random(), 3),
        whom=rng.choice(("trainer", "trainer", "last", "all")) if fault in ("kill_saving", "kill_loading") else "trainer",
        brief=rng.random() < 0.3,
        overrides=recover,
    )
