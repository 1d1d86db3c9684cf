"""Finds the faults of a YOLO recipe, except those of its arguments. Runs nothing."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Sequence

from packaging.version import Version

from launcher.adapter.checkpointing import share_faults
from launcher.adapter.destination import destination_faults
from launcher.config.schema import Recipe
from launcher.errors import BadInput, Fault
from launcher.machine import devices, install
from launcher.trainers.ultralytics import arguments as yolo_arguments
from launcher.trainers.ultralytics.data import DatasetFacts
from launcher.trainers.ultralytics.starts import start_of

OLDEST = "8.3.0"
TASKS = ("detect", "segment", "pose", "obb")
_STRIDE = 32  # of every YOLO detector up to P5; P6 models have 64, for which Ultralytics rounds up itself
_NOT_CHECKPOINTED = ("rtdetr", "world", "yoloe")


def rank_faults(recipe: Recipe, count: int) -> list[Fault]:
    """What Ultralytics can't do in several processes."""
    faults = []
    if count > 1 and isinstance(recipe.device.cards, int) and devices.chosen_kind(recipe.device.kind) == "cpu":
        cure = "device.cards=null: a CPU's cores work for one process, too."
        faults.append(Fault(key="device.cards", found=f"{count} processes on a CPU: Ultralytics trains on several cards only", cure=cure))
    if count > 1 and recipe.trainer.args.get("rect"):
        cure = "Set it to false, as Ultralytics itself would on several cards."
        faults.append(Fault(key="trainer.args.rect", found="rect=True doesn't go together with several cards", cure=cure))
    return faults


def faults(recipe: Recipe, task: str, facts: DatasetFacts | None, of_data: Sequence[Fault]) -> list[Fault]:
    """All faults. ``facts``: what the data set holds; None if it can't be read. ``of_data``: the data set's own faults."""
    found = _version_faults()
    if task not in TASKS:
        found.append(Fault(key="trainer.task", found=f"task {task!r} is not covered", cure=f"Covered: {', '.join(TASKS)}."))
    found += _model_faults(recipe)
    if recipe.data is None:
        found.append(Fault(key="data", found="no data set is named", cure="Give the path of its data.yaml: data=path/to/data.yaml."))
    return [
        *found,
        *of_data,
        *share_faults(recipe),
        *_size_faults(recipe),
        *_multi_scale_faults(recipe),
        *destination_faults("save_dir", recipe.trainer.args.get("save_dir")),
    ]


def _version_faults() -> list[Fault]:
    """Refuses an Ultralytics that is older than any that was run; one without metadata is looked at by the run itself."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        if Version(there := importlib.metadata.version("ultralytics")) < Version(OLDEST):
            cure = f"Install a later one: {install.command(f'ultralytics>={OLDEST}')} (docs/versions.md says which were run)."
            return [Fault(key="trainer.adapter", found=f"ultralytics {there} is older than any that was run", cure=cure)]
    return []


def _model_faults(recipe: Recipe) -> list[Fault]:
    model = recipe.ask.get("model")
    if not isinstance(model, str):
        return [Fault(key="ask.model", found="no model is named", cure="For example ask.model=yolo11l.pt.")]
    faults = []
    if recipe.ask.get("checkpointing") and any(name in model.lower() for name in _NOT_CHECKPOINTED):
        faults.append(
            Fault(
                key="ask.checkpointing",
                found=f"{model} has a forward pass of its own",
                cure="Take checkpointing out of the ladder for it.",
            )
        )
    try:
        start_of(model)
    except BadInput as refused:
        faults += refused.faults
    return faults


def _size_faults(recipe: Recipe) -> list[Fault]:
    """Faults of sizes that aren't multiples of the stride: Ultralytics would round them up and run something else."""
    size = recipe.ask.get("image_size")
    if not isinstance(size, int) or size % _STRIDE == 0:
        return []
    nearest = f"{size // _STRIDE * _STRIDE} or {(size // _STRIDE + 1) * _STRIDE}"
    return [Fault(key="ask.image_size", found=f"{size} is not a multiple of the stride {_STRIDE}", cure=f"Ask for {nearest}.")]


def _multi_scale_faults(recipe: Recipe) -> list[Fault]:
    """Ultralytics 8.3 only has it on or off, and on means from half the image size to one and a half."""
    asked = recipe.ask.get("multi_scale")
    if not asked or asked == 0.5 or not yolo_arguments.is_flag("multi_scale"):
        return []
    cure = "Ask for 0.5 or 0, or install ultralytics 8.4 or later."
    return [Fault(key="ask.multi_scale", found=f"{asked!r}: the installed Ultralytics has it on (0.5) or off", cure=cure)]
