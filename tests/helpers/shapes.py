"""Takes a folder; leaves a tiny data set there in Ultralytics' format: noise with shapes on it, one image far denser than the rest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

NAMES = ("square", "disc", "bar")
KEYPOINTS = 4


@dataclass(frozen=True, kw_only=True)
class ShapesData:
    folder: Path
    yaml: Path


def label(task: str, rng: np.random.Generator, *, classes: int = len(NAMES)) -> str:
    """One row of a label file, of a random object."""
    cls = int(rng.integers(classes))
    w, h = rng.uniform(0.08, 0.3, 2)
    x, y = rng.uniform(w / 2, 1 - w / 2), rng.uniform(h / 2, 1 - h / 2)
    left, right, top, bottom = x - w / 2, x + w / 2, y - h / 2, y + h / 2
    corners = (left, top, right, top, right, bottom, left, bottom)
    if task in ("segment", "obb"):
        numbers: tuple[float, ...] = corners
    elif task == "pose":
        points = [value for i in range(KEYPOINTS) for value in (corners[2 * i], corners[2 * i + 1], 2.0)]
        numbers = (x, y, w, h, *points)
    else:
        numbers = (x, y, w, h)
    return " ".join((str(cls), *(f"{number:.5f}" for number in numbers)))


def _split(folder: Path, split: str, task: str, shapes: list[tuple[int, int]], counts: list[int], rng: np.random.Generator) -> None:
    images, labels = folder / "images" / split, folder / "labels" / split
    images.mkdir(parents=True)
    labels.mkdir(parents=True)
    for number, ((height, width), count) in enumerate(zip(shapes, counts, strict=True)):
        pixels = rng.integers(0, 255, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(images / f"{number:03}.png")
        (labels / f"{number:03}.txt").write_text("\n".join(label(task, rng) for _ in range(count)), encoding="utf-8")


def make_shapes(
    folder: Path, task: str = "detect", train: int = 12, val: int = 6, size: int = 96, densest: int = 25, seed: int = 0
) -> ShapesData:
    """A data set of ``train`` and ``val`` images around ``size`` pixels; each split has one image with ``densest`` labels."""
    rng = np.random.default_rng(seed)
    for split, number in (("train", train), ("val", val)):
        shapes = [(size, size) if i % 3 else (size, size * 2 // 3) for i in range(number)]
        counts = [densest if i == number // 2 else 1 + i % 3 for i in range(number)]
        _split(folder, split, task, shapes, counts, rng)
    lines = [f"path: {folder}", "train: images/train", "val: images/val", "names:", *(f"  {i}: {name}" for i, name in enumerate(NAMES))]
    if task == "pose":
        lines += [f"kpt_shape: [{KEYPOINTS}, 3]", "flip_idx: [1, 0, 3, 2]"]
    yaml = folder / "data.yaml"
    yaml.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ShapesData(folder=folder, yaml=yaml)
