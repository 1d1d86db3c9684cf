"""A seed -> a case: which training, at which moment its limit is lowered, and how much is left. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass

GENERATOR = 1
"""Raised where cases are made otherwise: rows of another one are other cases."""
TRAININGS = ("text", "script_of_trainer", "yolo", "text_dropout", "text_bf16", "script_of_trainer_dropout", "plain")
MOMENTS = ("train", "backward", "validation", "optimizer", "save")
PAIRS = [(training, moment) for moment in MOMENTS for training in TRAININGS]
STEPS, EVERY = {"text": 10, "script_of_trainer": 10, "yolo": 12, "plain": 12}, {"text": 5, "script_of_trainer": 5, "yolo": 4, "plain": 4}
"""Optimizer steps of a training, and from one checkpoint and validation to the next."""
LEFT = {"train": (0.2, 0.9), "backward": (0.2, 0.9), "validation": (0.05, 0.6), "optimizer": (0.05, 0.6), "save": (0.05, 0.6)}
"""Of the memory that a step needs above what stays between steps."""
LEFT_VALIDATING = (0.02, 0.3)
"""From the second round on: a validation needs less than a step, and the first left room for it."""
EVERY_RESTART = 5
"""One case in so many is played with a restart, too, however it went: each training and each moment of a round."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One run whose limit is lowered."""

    seed: int
    training: str
    moment: str
    step: int
    """Optimizer steps made before; for a save and a validation: the first after so many."""
    left: float

    @property
    def compared(self) -> bool:
        """Whether it is held against a restart even where its parts have lost nothing."""
        return self.seed % EVERY_RESTART == 0

    @property
    def kind(self) -> str:
        return kind_of(self.training)


def kind_of(training: str) -> str:
    """The name of a training without its dropout or precision."""
    return training.removesuffix("_dropout").removesuffix("_bf16")


def make(seed: int) -> Case:
    """Each round of seeds has every pair of a training and a moment once."""
    rng = random.Random(f"{GENERATOR}/{seed}")
    training, moment = PAIRS[seed % len(PAIRS)]
    steps, every = STEPS[kind_of(training)], EVERY[kind_of(training)]
    among = [step for step in range(2, steps - 1) if step % every] if moment in MOMENTS[:2] else range(2, steps - 1)
    low, high = LEFT[moment] if moment != "validation" or seed < len(PAIRS) else LEFT_VALIDATING
    return Case(seed=seed, training=training, moment=moment, step=rng.choice(list(among)), left=round(rng.uniform(low, high), 2))
