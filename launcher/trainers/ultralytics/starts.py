"""Finds what a recipe's model stands for: weights that are here or can be downloaded, or a training from scratch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from launcher.config.schema import Value
from launcher.errors import BadInput, Fault
from launcher.trainers.ultralytics import models as yolo_models


@dataclass(frozen=True, slots=True)
class Start:
    """What a model value stands for."""

    file: str
    """The file that Ultralytics gets: ``.pt`` (weights) or ``.yaml`` (from scratch)."""
    note: str = ""
    """A sentence for the user; empty if there is nothing to say."""


def smaller(asked: str, floor: Value) -> Sequence[str]:
    """Smaller sizes of the same family, largest first. Raises ValueError for a floor that means nothing."""
    return yolo_models.smaller(asked) if floor is None else yolo_models.down_to(asked, str(floor))


def starts_alike(model: str, asked: str) -> bool:
    """Whether a smaller model starts as the asked one does (both pretrained, or both from scratch). True if the asked one is missing."""
    try:
        pretrained = start_of(asked).file.endswith(".pt")
    except BadInput:
        return True
    try:
        return start_of(model).file.endswith(".pt") == pretrained
    except BadInput:
        return False


def start_of(model: str) -> Start:
    """What ``model`` stands for. Raises BadInput if it isn't here and can't be downloaded."""
    found = yolo_models.locate(model)
    if found.kind == "bare":
        if found.path is not None:
            return Start(f"{model}.pt")
        if yolo_models.fetchable(f"{model}.pt"):
            return Start(f"{model}.pt", f"{model}.pt isn't here yet: Ultralytics will download it")
        return Start(
            f"{model}.yaml",
            f"{model}.pt isn't here and can't be fetched: {model} trains FROM SCRATCH; ask.model={model}.pt would insist on weights",
        )
    if found.kind in ("weights", "architecture"):
        if found.path is not None:
            return Start(model)
        if yolo_models.fetchable(model):
            return Start(model, f"{model} isn't here yet: Ultralytics will download it")
    looked = ", ".join(str(path) for path in found.looked_in) or "nowhere: it isn't a .pt or .yaml file"
    cure = (
        f"Put the file there, or train from scratch: ask.model={Path(model).stem}.yaml."
        if found.kind == "weights"
        else "Name a .pt or .yaml model."
    )
    raise BadInput([Fault(key="ask.model", found=f"{model!r} isn't here and can't be fetched (looked for {looked})", cure=cure)])


def file_of(model: str) -> Path | None:
    """The file of a model of the ladder; None if it isn't here."""
    return yolo_models.locate(model).path


def starts_from(model: str) -> str:
    try:
        return start_of(model).file
    except BadInput:
        return "nothing: it isn't here"
