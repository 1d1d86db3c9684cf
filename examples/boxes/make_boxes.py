"""Makes images without sense and dense labels, laid out as Ultralytics reads them: what `autofit plan` plays where no data is here.

    python make_boxes.py DESTINATION [--task detect] [--size 640] [--images 64] [--densest 300]

DESTINATION/data.yaml names 80 classes. The validation set has twice the images, as its batches do. All images of a split are one file.
"""

from __future__ import annotations

import argparse
import os
import random
from pathlib import Path

from PIL import Image

CLASSES, USUAL = 80, 20
"""COCO's classes; labels of every image but the first of its split, which is the densest."""
KEYPOINTS = (17, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("destination", type=Path)
    parser.add_argument("--task", default="detect", choices=("detect", "segment", "pose", "obb"))
    parser.add_argument("--size", type=int, default=640)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--densest", type=int, default=300)  # as many as Ultralytics keeps of what it finds in an image (max_det)
    args = parser.parse_args()
    for split, count in (("train", args.images), ("val", 2 * args.images)):
        _split(args.destination, split, count, args)
    shape = f"kpt_shape: {list(KEYPOINTS)}\n" if args.task == "pose" else ""
    names = [f"class{number}" for number in range(CLASSES)]
    text = f"path: {args.destination.absolute()}\ntrain: images/train\nval: images/val\n{shape}names: {names}\n"
    (args.destination / "data.yaml").write_text(text, encoding="utf-8")


def _split(place: Path, split: str, count: int, args: argparse.Namespace) -> None:
    images, labels = place / "images" / split, place / "labels" / split
    for folder in (images, labels):
        folder.mkdir(parents=True)
    grains = Image.frombytes("RGB", (16, 16), random.Random(0).randbytes(3 * 16 * 16))
    grains.resize((args.size, args.size)).save(images / "0.jpg")
    for number, rows in enumerate([args.densest, *[USUAL] * (count - 1)]):
        if number:
            os.link(images / "0.jpg", images / f"{number}.jpg")
        text = "\n".join(_row(args.task, random.Random(row)) for row in range(rows))
        (labels / f"{number}.txt").write_text(text, encoding="utf-8")


def _row(task: str, chance: random.Random) -> str:
    """One label: its class, and the task's own numbers, all parts of the image's sides."""
    (x, y), (width, height) = ([chance.uniform(*bounds) for _ in range(2)] for bounds in ((0.1, 0.9), (0.02, 0.1)))
    left, right, top, bottom = x - width / 2, x + width / 2, y - height / 2, y + height / 2
    numbers = {
        "detect": [x, y, width, height],
        "pose": [x, y, width, height, *[x, y, 2] * KEYPOINTS[0]],
    }.get(task, [left, top, right, top, right, bottom, left, bottom])
    return " ".join([str(chance.randrange(CLASSES)), *(f"{number:.4f}" for number in numbers)])


if __name__ == "__main__":
    main()
