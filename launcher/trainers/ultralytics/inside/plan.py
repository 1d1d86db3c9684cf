"""The orders of a trial, read: what is asked of Ultralytics and how much of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.shared.orders import Orders
from launcher.trainers.ultralytics.arguments import saved_in
from launcher.trainers.ultralytics.inside import going_on

COVERED = ("detect", "segment", "pose", "obb")

MOST_SHAPES = 4
"""Validation batches of a trial on a card before the largest comes again: the largest, the densest, a small and an odd one."""
EQUALS = 3
"""Validation batches alike, in a row, before what each keeps can be told from the noise of a card's allocator."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """One trial."""

    model: str
    task: str | None
    arguments: dict[str, Any]
    """Native arguments of this rung, with everything that is written going to the trial's scratch folder. A second process finds them
    in the copy of its checkpoint."""
    user_arguments: dict[str, Any]
    run_folder: Path
    checkpointing: bool | float
    val_batch: int | None
    asked_batch: int
    asked_nbs: int
    cache_folder: Path
    orders: Orders
    validation_batches: int
    halves: int = 0

    @classmethod
    def of(cls, orders: Orders) -> Plan:
        payload = orders.payload
        asked_for = dict(payload["args"])
        run_folder = orders.scratch / "run"
        cache_folder = Path(payload["cache_dir"], *(["again"] if orders.resumes and orders.device == "cpu" else []))  # as ``trial`` says
        cache_folder.mkdir(parents=True, exist_ok=True)
        quiet = {
            "project": None,  # Ultralytics Platform uploads only with a project
            "name": None,
            "exist_ok": True,
            **saved_in(run_folder),
            "save": True,  # save=False still saves the last epoch; on a card, saving copies model and optimizer there
            "val": True,  # val=False still validates the last epoch
            **({"cache": False} if asked_for.get("cache") == "disk" else {}),  # would write .npy files beside the images
            "resume": str(going_on.copy_of(orders)) if orders.resumes else False,
        }
        return cls(
            model=str(going_on.copy_of(orders)) if orders.resumes else payload["model"],
            task=payload.get("task"),
            arguments={**asked_for, **quiet},
            user_arguments=asked_for,
            run_folder=run_folder,
            checkpointing=payload.get("checkpointing", False),
            val_batch=payload.get("val_batch"),
            asked_batch=payload["asked_batch"],
            asked_nbs=payload["asked_nbs"],
            cache_folder=cache_folder,
            orders=orders,
            validation_batches=max(orders.validation_batches, MOST_SHAPES + EQUALS if orders.device == "cuda" else 2),
            halves=orders.halves if int(asked_for.get("batch", 1)) // orders.world_size > 1 else 0,
        )


class NotCovered(ValueError):
    """This trial cannot say anything true about such a run. The message says which, and what is covered."""


def refuse_uncovered(task: str) -> None:
    if task not in COVERED:
        raise NotCovered(f"a trial of task {task!r} is not covered: its data has another shape. Covered: {', '.join(COVERED)}")


class TrialDone(BaseException):
    """Everything was seen. A BaseException, so that no handler of Ultralytics' or of a callback keeps the run going."""
