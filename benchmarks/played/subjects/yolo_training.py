"""An unedited Ultralytics training of a few micro-batches; prints what it allocated and reserved. MODEL CLASSES IMAGES PIXELS LABELS."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

MICRO_BATCHES = 4


class Enough(Exception):
    """The peak of the training's first micro-batches is known."""


def main(model: str, classes: int, images: int, pixels: int, labels: int) -> None:
    import torch
    from ultralytics import YOLO

    seen = 0

    def count(_: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == MICRO_BATCHES:
            raise Enough

    with tempfile.TemporaryDirectory() as place:
        data = made(Path(place), count=MICRO_BATCHES * images, classes=classes, pixels=pixels, labels=labels)
        net = YOLO(f"{model}.yaml")
        net.add_callback("on_train_batch_end", count)
        with contextlib.suppress(Enough):
            net.train(data=str(data), imgsz=pixels, batch=images, epochs=3, workers=0, plots=False, val=False, project=place, device=0)
    print(json.dumps({"allocated_bytes": torch.cuda.max_memory_allocated(), "reserved_bytes": torch.cuda.max_memory_reserved()}))


def made(place: Path, *, count: int, classes: int, pixels: int, labels: int) -> Path:
    """A data set of noise."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    for kind in ("images", "labels"):
        (place / kind).mkdir()
    for number in range(count):
        noise = rng.integers(0, 255, (pixels // 16, pixels // 16, 3), dtype=np.uint8)
        Image.fromarray(noise).resize((pixels, pixels)).save(place / "images" / f"{number}.jpg", quality=60)
        boxes = np.concatenate([rng.uniform(0.1, 0.9, (labels, 2)), rng.uniform(0.02, 0.3, (labels, 2))], axis=1)
        lines = [" ".join((str(rng.integers(classes)), *(f"{value:.4f}" for value in box))) for box in boxes]
        (place / "labels" / f"{number}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    told = f"path: {place}\ntrain: images\nval: images\nnames: {[f'class{number}' for number in range(classes)]}\n"
    (place / "data.yaml").write_text(told, encoding="utf-8")
    return place / "data.yaml"


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
