"""The orders of a trial, read: what is asked of the trainer and how much of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from launcher.shared.orders import Orders

HALVES = 2
"""The first warms up."""

MOST_ACCUMULATION = 2
"""Micro-batches per optimizer step in a trial. The rest of an accumulated batch is held as copies: see ``Follower.hold``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """One trial."""

    script: str
    argv: tuple[str, ...]
    """The rung's words, followed by ``replaced``; the last word counts."""
    full_argv: tuple[str, ...]
    """The rung's words as the full run gets them, save for the output folder."""
    generates: bool
    on_cpu: bool
    accumulation: int
    """Micro-batches per optimizer step here."""
    real_accumulation: int
    """Micro-batches per optimizer step in the full run."""
    steps: int
    validation_batches: int
    steps_after: int
    halves: int = 0
    """Micro-batches of half the samples at the end, where the driver may spill: their time per sample is held against whole ones'."""

    @classmethod
    def of(cls, orders: Orders) -> Plan:
        real = max(orders.accumulation, 1)
        output_dir, on_cpu = str(orders.scratch / "run"), orders.device == "cpu"
        given = {**replaced(on_cpu=on_cpu, accumulation=real), "output_dir": output_dir}
        return cls(
            script=orders.payload["script"],
            argv=(*orders.payload["argv"], *(word for key, value in given.items() for word in (f"--{key}", str(value)))),
            full_argv=(*orders.payload["argv"], "--output_dir", output_dir),
            generates=bool(orders.payload["generates"]),
            on_cpu=on_cpu,
            accumulation=given["gradient_accumulation_steps"],
            real_accumulation=real,
            steps=max(orders.steps, 2),
            validation_batches=max(orders.validation_batches, 2),
            steps_after=max(orders.steps_after, 1),
            halves=HALVES if orders.may_spill else 0,
        )


def replaced(*, on_cpu: bool, accumulation: int) -> dict[str, Any]:
    """The arguments that a trial gives another value; ``table`` says of each why that hides no need.

    On a CPU nothing but the accumulation: what is saved, loaded and logged takes the memory that the budget is made of.
    """
    always = {"output_dir": "", "gradient_accumulation_steps": min(accumulation, MOST_ACCUMULATION), "push_to_hub": False}
    on_a_card = {"save_strategy": "no", "load_best_model_at_end": False, "report_to": "none"}
    return always if on_cpu else {**always, **on_a_card}
