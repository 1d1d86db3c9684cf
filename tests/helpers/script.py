"""A person's script as a recipe, and the launch of whatever an adapter stands for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autofit_launcher.adapter.build import ladder_of
from autofit_launcher.adapter.protocol import Adapter
from autofit_launcher.config.schema import Recipe
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.machine.devices import Budget
from autofit_launcher.trainers.suite import cpu_budget
from autofit_launcher.trial.job import Job

FLAGS = {"micro_batch": "--batch-size", "accumulation": "--accum"}


def recipe(*command: str, ask: Mapping[str, Any], floor: int | None = None, more: Mapping[str, Any] | None = None, **args: Any) -> Recipe:
    """On a CPU. ``args``: of the trainer; ``more``: other sections."""
    told = {"command": [*(command or ("python", "train.py"))], "spelled": FLAGS, **args}
    ladder = {"order": ("micro_batch",), "wheels": {"micro_batch": {"floor": floor}} if floor else {}}
    said = {"name": "mine", "ask": ask, "trainer": {"adapter": "script", "args": told}, "ladder": ladder, "device": {"kind": "cpu"}}
    return Recipe.model_validate({**said, **(more or {})})


def job(adapter: Adapter, place: Path, budget: Budget | None = None) -> Job:
    """Its run folder is below ``place``."""
    folder = RunFolder.create(place, "mine")
    return Job(adapter=adapter, ladder=ladder_of(adapter), budget=budget or cpu_budget(), folder=folder)
