"""Finds the faults of a YOLO recipe, except those of its arguments and its data. Runs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from autofit_launcher.adapter.commands import destination_faults
from autofit_launcher.config.schema import Recipe
from autofit_launcher.errors import Fault
from autofit_launcher.machine import devices
from autofit_launcher.trainers.ultralytics import models

TASKS = ("detect", "segment", "pose", "obb")
_NOT_CHECKPOINTED = ("compile", "distill_model")  # inductor has rules of its own, and a teacher's hooks would fire twice
_STRIDE = 32  # of every YOLO detector up to P5; P6 models have 64, for which Ultralytics rounds up itself


def faults(recipe: Recipe, task: str, *, ranks: int) -> Iterator[Fault]:
    if task not in TASKS:
        yield Fault(key="trainer.task", found=f"task {task!r} is not covered", cure=f"Covered: {', '.join(TASKS)}.")
    if recipe.data is None:
        yield Fault(key="data", found="no data set is named", cure="Give the path of its data.yaml: data=path/to/data.yaml.")
    yield from _of_model(recipe)
    checkpointed = recipe.ask.get("checkpointing") or "checkpointing" in recipe.ladder.order
    for name in _NOT_CHECKPOINTED if checkpointed else ():
        if recipe.trainer.args.get(name):
            found, cure = f"{name} doesn't go together with gradient checkpointing", "Take checkpointing out of ladder.order."
            yield Fault(key=f"trainer.args.{name}", found=found, cure=cure)
    yield from _of_ranks(recipe, ranks)
    yield from destination_faults("save_dir", recipe.trainer.args.get("save_dir"))
    size = recipe.ask.get("image_size")
    if isinstance(size, int) and size % _STRIDE:
        below = size // _STRIDE * _STRIDE
        found = f"{size} is not a multiple of the stride {_STRIDE}, so Ultralytics would train at another size"
        yield Fault(key="ask.image_size", found=found, cure=f"Ask for {below} or {below + _STRIDE}.")


def _of_model(recipe: Recipe) -> Iterator[Fault]:
    model = recipe.ask.get("model")
    if not isinstance(model, str) or Path(models.file_of(model)).suffix not in models.SUFFIXES:
        yield Fault(key="ask.model", found=f"{model!r} is no .pt or .yaml model", cure="For example ask.model=yolo11l.pt.")
    elif not models.can_be_had(model):
        found, cure = f"{model} isn't here, and YOLO_OFFLINE forbids fetching it", f"Put it there, or ask.model={Path(model).stem}.yaml."
        yield Fault(key="ask.model", found=found, cure=cure)


def _of_ranks(recipe: Recipe, count: int) -> Iterator[Fault]:
    """Finds what Ultralytics can't do in several processes."""
    if count > 1 and isinstance(recipe.device.cards, int) and devices.chosen_kind(recipe.device.kind) == "cpu":
        cure = "device.cards=null: a CPU's cores work for one process, too."
        yield Fault(key="device.cards", found=f"{count} processes on a CPU: Ultralytics trains on several cards only", cure=cure)
    if count > 1 and recipe.trainer.args.get("rect"):
        cure = "Set it to false, as Ultralytics itself would on several cards."
        yield Fault(key="trainer.args.rect", found="rect=True doesn't go together with several cards", cure=cure)
