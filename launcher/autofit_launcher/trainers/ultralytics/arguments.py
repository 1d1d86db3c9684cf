"""Ultralytics' own arguments: those of the installed version's ``cfg/default.yaml``, read without importing it; and what a recipe may say.

Names, types and ranges are held against Ultralytics' own check (``inside.checked``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from autofit_launcher.adapter.commands import destination_faults
from autofit_launcher.common import interpreter
from autofit_launcher.config.schema import Recipe
from autofit_launcher.errors import Fault, refusal
from autofit_launcher.machine import devices
from autofit_launcher.machine.packages import too_old
from autofit_launcher.trainers.ultralytics import environment, models

TASKS = ("detect", "segment", "pose", "obb")
_NOT_CHECKPOINTED = ("compile", "distill_model")  # inductor has rules of its own, and a teacher's hooks would fire twice
ELSEWHERE: Mapping[str, str] = {
    "batch": "It is the ladder's: set ask.micro_batch (samples per device); autofit works out batch and nbs.",
    "imgsz": "It is the ladder's: set ask.image_size.",
    "model": "It is the ladder's: set ask.model.",
    "data": "Set data= (top level).",
    "device": "Set device=cpu, device=cuda or device.index=N.",
    "task": "Set trainer.task.",
    "mode": "autofit trains; the mode is always train.",
    "cfg": "Put the arguments of that file under trainer.args.",
    "resume": "A launch is a new training; resume an old one with `yolo train resume model=.../last.pt`.",
    "time": "It changes epochs and accumulation as the run goes: set trainer.args.epochs.",
    "profile": "It exports the model in the middle of the run: leave it out; `yolo benchmark` times.",
    "quantize": "It calibrates on data of its own: quantize on export.",
    "accumulate": "Ultralytics works it out of batch and nbs (64): set ask.accumulation.",
}
"""Arguments that a recipe sets elsewhere, or that no trial can stand for: key -> what to do instead."""


def known() -> Mapping[str, Any]:
    """Every argument of the installed version, and its default. Raises BadInput where there is none."""
    package, python = environment.installed(), interpreter.persons()
    if package is None:
        cure = f"{python} -m pip install ultralytics torch torchvision; or activate the environment that has it."
        raise refusal(f"the package ultralytics is not installed for {python}", cure, key="trainer.adapter")
    if old := too_old(python):
        raise refusal(old, "Train with such a one.", key="trainer.adapter")
    return _defaults(package / "cfg" / "default.yaml")


@lru_cache(maxsize=1)
def _defaults(path: Path) -> Mapping[str, Any]:
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")))


def saved_in(folder: Path) -> dict[str, Any]:
    """Arguments that make Ultralytics write into ``folder`` itself. Versions before about 8.4.60 ignore ``save_dir``."""
    return {"project": str(folder.absolute().parent), "name": folder.name, "exist_ok": True}


def value_of(args: Mapping[str, Any], key: str) -> Any:
    """The argument as the trainer will see it: the recipe's, or Ultralytics' default."""
    return args.get(key, known()[key])


def faults(args: Mapping[str, Any], *, asked: Mapping[str, Any]) -> list[Fault]:
    """Faults of ``trainer.args`` but names, types and ranges. ``asked``: the recipe's wheels, which must not be given twice."""
    found = []
    for key, value in args.items():
        if key in ELSEWHERE and value not in (None, False):
            found.append(Fault(key=f"trainer.args.{key}", found=f"{value!r} can't be set here", cure=ELSEWHERE[key]))
        elif asked.get(key) is not None:
            twice = f"{value!r}: said twice, also as ask.{key}={asked[key]!r}"
            found.append(Fault(key=f"trainer.args.{key}", found=twice, cure="Keep the one under ask."))
    return found


def recipe_faults(recipe: Recipe, task: str, *, ranks: int) -> Iterator[Fault]:
    """Faults of the recipe, except those of its arguments and its data."""
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
