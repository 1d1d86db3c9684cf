"""A seed -> a case: trainer, ranks, the fault, which rank it comes to, and whether in a trial or in the run. Pure."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

GENERATOR = 1
TRAINERS = ("script", "script", "script", "transformers")
RANKS = (2, 3, 4)
FAULTS = ("memory", "memory", "memory", "killed", "raises", "leaves", "hangs")
"""memory: more than there is at once; killed: SIGKILL; raises: an error of its own; leaves: ends as if all were well; hangs: for good."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    seed: int
    trainer: str
    ranks: int
    fault: str
    rank: int
    where: str
    step: int


def make(seed: int) -> Case:
    """Of three cases one is the full run of a fit; of transformers only trials are played, whose ranks autofit starts."""
    chance = random.Random(f"{GENERATOR} {seed}")
    where = "run" if seed % 3 == 2 else "trial"
    ranks = chance.choice(RANKS)
    return Case(
        seed=seed, trainer="script" if where == "run" else chance.choice(TRAINERS), ranks=ranks, fault=chance.choice(FAULTS), where=where,
        rank=chance.randrange(ranks), step=2 if where == "trial" else 5,
    )  # fmt: skip


COSTS = tuple(
    Case(seed=-1 - at, trainer=trainer, ranks=ranks, fault="none", rank=0, where="trial", step=0)
    for at, (trainer, ranks) in enumerate(itertools.product(("script", "transformers"), (1, 2, 4)))
)
"""Undisturbed trials: what more ranks cost."""
