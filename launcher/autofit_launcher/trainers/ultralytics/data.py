"""A training's arguments, model and data set, looked at by Ultralytics itself before anything is launched (``inside.checked``).

And so small a training that it can be compared in several layouts: a few images, two epochs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from autofit_launcher.errors import Fault
from autofit_launcher.trainers.ultralytics import environment

LONGEST_S = 120.0
INSIDE = "autofit_launcher.trainers.ultralytics.inside.checked"
IMAGES = 8
"""Images of a small training for each card."""
LOOKED_AT = 2000
"""Most images that are looked at for some with objects."""
SMALL: Mapping[str, Any] = {
    **dict.fromkeys(("mosaic", "mixup", "cutmix", "copy_paste"), 0.0),
    "epochs": 2, "plots": False, "save_period": -1, "cache": False, "workers": 0, "amp": False,
}  # fmt: skip
"""Arguments of a small training. Mosaic, mixup and the like take images loaded before, of which more are kept with larger micro-batches;
twins leave half precision out, and Ultralytics' validation would give half inputs to whole weights."""
NOT_TAKEN = frozenset({"save_dir", "project", "name", "resume", "split", "fraction"})
"""Arguments that say where a run is kept, or which part of the data it takes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetFacts:
    """The image files of a data set."""

    yaml_path: Path
    train: tuple[str, ...] = field(repr=False)
    val: tuple[str, ...] = field(repr=False)


def inspect(data: str, args: Mapping[str, Any] | None = None, *, model: str = "") -> tuple[DatasetFacts | None, list[Fault]]:
    """Finds what ``data`` holds, and what is wrong with it, ``args`` or the ``model`` (one that isn't here); facts are None where its
    images can't be listed."""
    said = json.dumps({"data": data.strip(), "model": model, "args": dict(args or {})})
    status, output = environment.asked(INSIDE, said, timeout_s=LONGEST_S)
    if status:
        why = f"took longer than {LONGEST_S:g} s" if status == 124 else f"failed: {output.strip()[-500:]}"
        return None, [Fault(key="data", found=f"looking at {data} {why}", cure="Is its disk at hand, and does `yolo checks` run?")]
    found = json.loads(output.splitlines()[-1])
    facts = found["facts"] and DatasetFacts(
        yaml_path=Path(found["facts"]["yaml"]), **{split: tuple(found["facts"][split]) for split in ("train", "val")}
    )
    return facts, [Fault(**fault) for fault in found["faults"]]


def label_path(image: str) -> str:
    """Names the file in which Ultralytics looks for an image's labels: the last /images/ becomes /labels/, the suffix .txt."""
    return f"{os.sep}labels{os.sep}".join(image.rsplit(f"{os.sep}images{os.sep}", 1)).rsplit(".", 1)[0] + ".txt"


def with_objects(files: Sequence[str], *, most: int) -> list[str]:
    """The first images with objects."""
    labels = ((image, Path(label_path(image))) for image in files[:LOOKED_AT])
    return list(islice((image for image, label in labels if label.is_file() and label.stat().st_size), most))


def small(original: Path, images: Sequence[str], *, folder: Path) -> dict[Path, str]:
    """Files (path -> text) of a data set of these images; the first is its YAML."""
    said = yaml.safe_load(original.read_text(encoding="utf-8"))
    listed = folder / "images.txt"
    kept = {key: value for key, value in said.items() if key not in ("path", "train", "val", "test", "minival", "download")}
    made = {**kept, "path": str(folder), "train": str(listed), "val": str(listed)}
    return {folder / "data.yaml": yaml.safe_dump(made, sort_keys=False), listed: "".join(f"{image}\n" for image in images)}
