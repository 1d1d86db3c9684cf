"""Images and labels for YOLO: a few of noise, one to four objects in each."""

from __future__ import annotations

import math
import random
from pathlib import Path

import yaml

IMAGES = 32
SIZE = 64


def make(task: str, folder: Path) -> None:
    import numpy as np
    from PIL import Image

    rng = random.Random(f"pictures {task}")
    for part, count in (("train", IMAGES), ("val", 8)):
        images, labels = folder / "images" / part, folder / "labels" / part
        images.mkdir(parents=True)
        labels.mkdir(parents=True)
        for number in range(count):
            noise = np.random.default_rng(rng.randrange(2**32)).integers(0, 255, (SIZE, SIZE, 3), dtype=np.uint8)
            Image.fromarray(noise).save(images / f"{number:03d}.png")
            rows = [_label(rng, task) for _ in range(rng.randint(1, 4))]
            (labels / f"{number:03d}.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    told = {"path": str(folder), "train": "images/train", "val": "images/val", "names": ["a", "b"]}
    if task == "pose":
        told |= {"kpt_shape": [3, 3], "flip_idx": [0, 1, 2]}
    (folder / "data.yaml").write_text(yaml.safe_dump(told), encoding="utf-8")


def _label(rng: random.Random, task: str) -> str:
    x, y, width, height = rng.uniform(0.3, 0.7), rng.uniform(0.3, 0.7), rng.uniform(0.2, 0.5), rng.uniform(0.2, 0.5)
    box = [x, y, width, height]
    if task == "segment":
        turns = [2 * math.pi * at / 6 for at in range(6)]
        box = [one for turn in turns for one in (x + width / 2 * math.cos(turn), y + height / 2 * math.sin(turn))]
    elif task == "obb":
        box = [one for dx, dy in ((-1, -1), (1, -1), (1, 1), (-1, 1)) for one in (x + dx * width / 2, y + dy * height / 2)]
    elif task == "pose":
        box += [one for at in (-0.2, 0.0, 0.2) for one in (x + at * width, y + at * height, 2.0)]
    return " ".join([str(rng.randrange(2)), *(f"{min(1.0, max(0.0, one)):.4f}" for one in box)])
