"""Takes a folder and a task; leaves a small data set there that is as unpleasant as people's own: nothing in it is square or even.

Mixed sizes and shapes, one image of 300 objects, one without labels, blanks and accents in every name, a number of images that no
batch divides.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from tests.helpers.shapes import KEYPOINTS, label

NAMES = ("café crème", "naïve façade", "Ölfaß", "point d'interrogation", "日本")
SIZES = ((480, 640), (640, 480), (300, 900), (900, 300), (97, 101), (1024, 1024), (37, 640))
DENSEST = 300


def make_nasty(root: Path, task: str = "detect", *, train: int = 27, val: int = 19, seed: int = 7, densest: int = DENSEST) -> Path:
    """Returns the data.yaml."""
    folder = root / "données d'été" / task
    rng = np.random.default_rng(seed)
    for split, count in (("train", train), ("val", val)):
        images, labels = folder / "images" / split, folder / "labels" / split
        images.mkdir(parents=True)
        labels.mkdir(parents=True)
        for number in range(count):
            height, width = SIZES[number % len(SIZES)]
            stem = f"été n° {number:03} (copie)"
            coarse = rng.integers(0, 255, (height // 8 + 1, width // 8 + 1, 3), dtype=np.uint8)
            Image.fromarray(coarse).resize((width, height)).save(images / f"{stem}.jpg", quality=80)
            objects = densest if number == 3 else 0 if number == 5 else 1 + number % 9
            rows = [label(task, rng, classes=len(NAMES)) for _ in range(objects)]
            (labels / f"{stem}.txt").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    lines = [f"path: {folder}", "train: images/train", "val: images/val", "names:"]
    lines += [f'  {number}: "{name}"' for number, name in enumerate(NAMES)]
    if task == "pose":
        lines += [f"kpt_shape: [{KEYPOINTS}, 3]", "flip_idx: [1, 0, 3, 2]"]
    yaml = folder / "données.yaml"
    yaml.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return yaml
