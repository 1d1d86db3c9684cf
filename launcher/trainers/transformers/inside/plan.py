"""The orders of a trial, read: what is asked of the trainer and how much of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from launcher.shared.orders import Orders


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
    saves: bool
    """Saves what the run saves. Not on a card where nobody goes on: there whole weights go to the host one by one."""
    orders: Orders

    @classmethod
    def of(cls, orders: Orders) -> Plan:
        output_dir, on_cpu = str(orders.scratch / "run"), orders.device == "cpu"
        saves = on_cpu or "--fsdp" in orders.payload["argv"] or bool(orders.payload["saves"])
        given = {**replaced(on_cpu=on_cpu, accumulation=orders.trial_accumulation, saves=saves), "output_dir": output_dir}
        if orders.resumes:
            given["resume_from_checkpoint"] = "last"  # of those that the first process has saved there
        return cls(
            script=orders.payload["script"],
            argv=(*orders.payload["argv"], *(word for key, value in given.items() for word in (f"--{key}", str(value)))),
            full_argv=(*orders.payload["argv"], "--output_dir", output_dir),
            generates=bool(orders.payload["generates"]),
            on_cpu=on_cpu,
            saves=saves,
            orders=orders,
        )


def replaced(*, on_cpu: bool, accumulation: int, saves: bool = False) -> dict[str, Any]:
    """The arguments that a trial gives another value; ``table`` says of each why that hides no need.

    On a CPU nothing but the accumulation: what is saved, loaded and logged takes the memory that the budget is made of. ``saves``: see
    ``Plan.saves``.
    """
    always = {"output_dir": "", "gradient_accumulation_steps": accumulation, "push_to_hub": False}
    unsaved = {} if on_cpu or saves else {"save_strategy": "no", "load_best_model_at_end": False}
    return {**always, **unsaved, **({} if on_cpu else {"report_to": "none"})}
