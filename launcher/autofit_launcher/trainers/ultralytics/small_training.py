"""Makes a training by Ultralytics so small that it can be compared in several layouts: a few images, two epochs.

Images are augmented as asked, except that mosaic, mixup and the like are off: they take images loaded before, and more of those are kept
with larger micro-batches. Half precision is off: twins leave it out, and Ultralytics' validation would give half inputs to whole weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from autofit_launcher.trainers.ultralytics.data import label_path

IMAGES = 8
"""Images for each card."""
LOOKED_AT = 2000
"""Most images that are looked at for some with objects."""
ARGS: Mapping[str, Any] = {
    **dict.fromkeys(("mosaic", "mixup", "cutmix", "copy_paste"), 0.0),
    "epochs": 2, "plots": False, "save_period": -1, "cache": False, "workers": 0, "amp": False,
}  # fmt: skip
NOT_TAKEN = frozenset({"save_dir", "project", "name", "resume", "split", "fraction"})
"""Arguments that say where a run is kept, or which part of the data it takes."""


def chosen(files: Sequence[str], *, most: int) -> list[str]:
    """The first images with objects."""
    labels = ((image, Path(label_path(image))) for image in files[:LOOKED_AT])
    return list(islice((image for image, label in labels if label.is_file() and label.stat().st_size), most))


def data_set(original: Path, images: Sequence[str], *, folder: Path) -> dict[Path, str]:
    """Files (path -> text) of a data set of these images; the first is its YAML."""
    said = yaml.safe_load(original.read_text(encoding="utf-8"))
    listed = folder / "images.txt"
    kept = {key: value for key, value in said.items() if key not in ("path", "train", "val", "test", "minival", "download")}
    made = {**kept, "path": str(folder), "train": str(listed), "val": str(listed)}
    return {folder / "data.yaml": yaml.safe_dump(made, sort_keys=False), listed: "".join(f"{image}\n" for image in images)}
