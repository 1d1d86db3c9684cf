"""Finds the smaller models of a YOLO model's family, and the file that a model's name stands for. Nothing is asked of the network."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

from autofit_launcher.common import files
from autofit_launcher.trainers.ultralytics import environment

SUFFIXES = (".pt", ".yaml", ".yml")
_SIZED = re.compile(r"(?P<family>yoloe?-?v?(?!9)\d+)(?P<letter>[a-z])(?P<rest>6?u?(?:-(?!rtdetr)[a-z0-9-]+)?)")
_LETTERS = "xlmsn"
"""Sizes of a family, largest first; YOLOv9 has others."""


def smaller(model: str, floor: str | None = None) -> tuple[str, ...]:
    """The same model in every smaller size, largest first, with folder and suffix kept; () where sizes mean nothing.

    A name only: whether the file is here is for ``here``. Raises ValueError for a ``floor`` (a letter, or a model) that is no size of the
    family.
    """
    path = PurePosixPath(model)
    match = _SIZED.fullmatch(_stem(path))
    if match is None or match["letter"] not in _LETTERS:  # without a letter, Ultralytics takes the smallest size
        return ()
    sized = _SIZED.fullmatch(_stem(PurePosixPath(floor))) if floor else None
    lowest = sized["letter"] if sized else floor or _LETTERS[-1]
    if len(lowest) != 1 or lowest not in _LETTERS:
        raise ValueError(f"floor {floor!r} is no size of {model}; its sizes are {', '.join(_LETTERS)}")
    suffix = path.name.removeprefix(_stem(path))
    below = _LETTERS[_LETTERS.index(match["letter"]) + 1 : _LETTERS.index(lowest) + 1]
    return tuple(f"{model[: len(model) - len(path.name)]}{match['family']}{one}{match['rest']}{suffix}" for one in below)


def _stem(path: PurePosixPath) -> str:
    return path.stem if path.suffix in SUFFIXES else path.name


def file_of(model: str) -> str:
    """Names the file that Ultralytics gets: ``.pt`` (weights, which a bare name stands for) or ``.yaml`` (from scratch)."""
    return model if Path(model).suffix else f"{model}.pt"


def here(model: str) -> Path | None:
    """Finds the file on this machine; None where it is to be downloaded, or is Ultralytics' own."""
    path = Path(file_of(model))
    sized = path.with_stem(re.sub(r"^(yolov[58][nslmx])6$", r"\1-p6", path.stem))  # as Ultralytics spells it
    family = re.sub(r"(\d+)[nslmx](.+)?$", r"\1\2", str(sized))  # a sized architecture is its family's file
    places = (path, weights_dir() / path) if path.suffix == ".pt" else (sized, Path(family))
    return next((one for one in places if one.is_file()), None)


def can_be_had(model: str) -> bool:
    """Tells whether nothing forbids that Ultralytics gets the model: YOLO_OFFLINE is taken at its word."""
    offline = os.environ.get("YOLO_OFFLINE", "").lower() in ("1", "true")
    return not offline or not file_of(model).endswith(".pt") or here(model) is not None


def setting(key: str) -> object:
    """One of the user's Ultralytics settings; None where nothing says it."""
    return files.read_json(environment.user_config_folder() / "settings.json").get(key)


def weights_dir() -> Path:
    """Finds the folder of weights behind the given path: the user's setting, else ``weights`` in the package's git checkout, or here."""
    root = environment.installed()
    above = root.resolve().parents if root is not None else ()
    return Path(str(setting("weights_dir") or next((one for one in above if (one / ".git").exists()), Path()) / "weights"))
