"""Images and labels for YOLO: a few of noise, one to four objects in each."""

from __future__ import annotations

import random
from pathlib import Path

import yaml

IMAGES = 32
SIZE = 64


def make(folder: Path) -> None:
    import numpy as np
    from PIL import Image

    rng = random.Random("pictures detect")
    for part, count in (("train", IMAGES), ("val", 8)):
        images, labels = folder / "images" / part, folder / "labels" / part
        images.mkdir(parents=True)
        labels.mkdir(parents=True)
        for number in range(count):
            noise = np.random.default_rng(rng.randrange(2**32)).integers(0, 255, (SIZE, SIZE, 3), dtype=np.uint8)
            Image.fromarray(noise).save(images / f"{number:03d}.png")
            rows = [_label(rng) for _ in range(rng.randint(1, 4))]
            (labels / f"{number:03d}.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    told = {"path": str(folder), "train": "images/train", "val": "images/val", "names": ["a", "b"]}
    (folder / "data.yaml").write_text(yaml.safe_dump(told), encoding="utf-8")


def _label(rng: random.Random) -> str:
    box = [rng.uniform(0.3, 0.7), rng.uniform(0.3, 0.7), rng.uniform(0.2, 0.5), rng.uniform(0.2, 0.5)]
    return " ".join([str(rng.randrange(2)), *(f"{min(1.0, max(0.0, one)):.4f}" for one in box)])
