"""Builds a small, real detection dataset: "find the digits" pages from scikit-learn's handwritten digits.

In: a folder to make. Out: images/{train,val}/*.jpg, labels/{train,val}/*.txt (YOLO: class x y width height, fractions
of the page) and data.yaml. The handwriting is the test set of E. Alpaydin and C. Kaynak's "Optical Recognition of
Handwritten Digits" (UCI), 1,797 images of 8 x 8, which ship with scikit-learn: nothing is downloaded.

    python make_digits.py data/digits [--pages 240] [--size 320]

Training and validation pages use different handwriting. Most pages hold 3 to 8 large digits, every tenth about 16
smaller ones: the dense pages are what a memory trial must find. The same parameters and library versions give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

MARKER = ".made_by_make_digits.json"
"""Lies in every folder made here, with the parameters: what has it may be replaced, nothing else."""
DENSE_EVERY = 10
"""Every so many pages, one is dense."""
INK = 0.35
"""A pixel with at least this much ink belongs to a digit's box."""
MOST_OVERLAP = 0.06
"""Part of the smaller box that two digits may share."""

Gray = NDArray[np.float32]
Box = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels; right and bottom are just outside."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameters:
    """What the pages depend on; kept in the marker."""

    pages: int = 240
    """Training pages; a quarter as many are made for validation."""
    size: int = 320
    """Width and height of a page in pixels."""
    seed: int = 0
    version: int = 2
    """Raised when this script draws other pages from the same parameters."""

    @property
    def validation_pages(self) -> int:
        return max(1, self.pages // 4)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the digits detection dataset.")
    parser.add_argument("folder", type=Path, help="where to put it, for example data/digits")
    parser.add_argument("--pages", type=int, default=240, help="training pages; validation gets a quarter (240)")
    parser.add_argument("--size", type=int, default=320, help="width and height of a page in pixels (320)")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other pages (0)")
    given = parser.parse_args(argv)
    if given.pages < 1 or given.size < 96 or given.seed < 0:
        parser.error("--pages must be at least 1, --size at least 96, --seed at least 0")
    try:
        print(make(given.folder, Parameters(pages=given.pages, size=given.size, seed=given.seed)))
    except FileExistsError as error:
        print(f"make_digits: {error}", file=sys.stderr)
        return 1
    return 0


def make(folder: Path, parameters: Parameters) -> str:
    """Makes the dataset at ``folder``, or finds it there already; returns a sentence that says which.

    It is built in a folder beside and renamed into place, so that nobody ever sees half of it. Raises FileExistsError,
    with the reason, where ``folder`` holds something else.
    """
    folder = Path(os.path.abspath(folder))
    if _reusable(folder, parameters):
        return f"{folder / 'data.yaml'} is there already, with the same parameters"
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        digits = _build(beside, parameters)
        beside.chmod(0o755)  # mkdtemp makes it private
        if not _put(beside, folder, parameters):
            return f"{folder / 'data.yaml'} was made by another process meanwhile"
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    pages = f"{parameters.pages} training and {parameters.validation_pages} validation pages"
    return f"{folder / 'data.yaml'}: {pages} of {parameters.size} px with {digits} digits"


def _reusable(folder: Path, parameters: Parameters) -> bool:
    """Whether ``folder`` is what would be made. Raises FileExistsError where it must not be replaced."""
    if not os.path.lexists(folder):
        return False
    if not folder.is_dir() or folder.is_symlink():
        raise FileExistsError(f"{folder} is not a folder; name another place")
    try:
        made = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        if any(folder.iterdir()):
            raise FileExistsError(f"{folder} holds something that was not made here; name another place") from None
        return False
    return bool(made == asdict(parameters)) and (folder / "data.yaml").is_file()


def _put(made: Path, folder: Path, parameters: Parameters) -> bool:
    """Renames ``made`` to ``folder``; what is there already is an older dataset of ours. False: another was faster."""
    if folder.is_dir() and any(folder.iterdir()):
        if _reusable(folder, parameters):
            return False
        old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
        os.replace(folder, old / "old")
        shutil.rmtree(old)
    try:
        os.replace(made, folder)
    except OSError:
        if _reusable(folder, parameters):
            return False
        raise
    return True


def _build(folder: Path, parameters: Parameters) -> int:
    """Writes the whole dataset below ``folder``; returns how many digits it shows."""
    from sklearn.datasets import load_digits

    pixels, classes = load_digits(return_X_y=True)
    strokes = (pixels.reshape(-1, 8, 8) / 16.0).astype(np.float32)
    total = 0
    for number, (split, pages) in enumerate((("train", parameters.pages), ("val", parameters.validation_pages))):
        (folder / "images" / split).mkdir(parents=True)
        (folder / "labels" / split).mkdir(parents=True)
        rng = np.random.default_rng([parameters.seed, number])
        mine = np.arange(len(classes)) % 5 == 4  # every fifth is for validation
        chosen = mine if split == "val" else ~mine
        source = _endless(strokes[chosen], classes[chosen], rng)
        for page in range(pages):
            image, rows = draw_page(source, parameters.size, page % DENSE_EVERY == DENSE_EVERY - 1, rng)
            image.save(folder / "images" / split / f"{page:04}.jpg", quality=90)
            text = "".join(f"{digit} {_yolo(box, parameters.size)}\n" for digit, box in rows)
            (folder / "labels" / split / f"{page:04}.txt").write_text(text, encoding="ascii")
            total += len(rows)
    (folder / "data.yaml").write_text(_data_yaml(parameters), encoding="ascii")
    (folder / MARKER).write_text(json.dumps(asdict(parameters)), encoding="ascii")
    return total


def _data_yaml(parameters: Parameters) -> str:
    names = "\n".join(f"  {digit}: '{digit}'" for digit in range(10))
    pages = f"{parameters.pages} + {parameters.validation_pages} pages of {parameters.size} px"
    header = f"# Find the handwritten digits: {pages}, made by examples/digits/make_digits.py."
    return f"{header}\ntrain: images/train\nval: images/val\nnames:\n{names}\n"


def _yolo(box: Box, size: int) -> str:
    left, top, right, bottom = (edge / size for edge in box)
    return f"{(left + right) / 2:.6f} {(top + bottom) / 2:.6f} {right - left:.6f} {bottom - top:.6f}"


def _endless(strokes: NDArray[np.float32], classes: NDArray[np.int64], rng: np.random.Generator) -> Iterator[tuple[int, Gray]]:
    """(digit, its 8 x 8 strokes) for ever: all ten digits in a new order again and again, so classes stay balanced."""
    by_digit = [np.flatnonzero(classes == digit) for digit in range(10)]
    while True:
        for digit in rng.permutation(10):
            yield int(digit), strokes[rng.choice(by_digit[digit])]


def draw_page(
    source: Iterator[tuple[int, Gray]], size: int, dense: bool, rng: np.random.Generator
) -> tuple[Image.Image, list[tuple[int, Box]]]:
    """One page and the digits on it with their boxes, which enclose the ink tightly."""
    page = _paper(size, rng)
    count = int(rng.integers(14, 19)) if dense else int(rng.integers(3, 9))
    height = (0.12, 0.16) if dense else (0.16, 0.30)  # of the page
    rows: list[tuple[int, Box]] = []
    for _ in range(count):
        digit, stroke = next(source)
        for shrink in np.linspace(1.0, 0.75, 40):  # forty places, each a little smaller
            ink = _glyph(stroke, size * rng.uniform(*height) * shrink, rng)
            box = _place(ink, size, rng)
            if all(_overlap(box, other) <= MOST_OVERLAP for _, other in rows):
                _print(page, ink, box, rng)
                rows.append((digit, box))
                break
    page += rng.normal(0.0, rng.uniform(0.008, 0.02), page.shape).astype(np.float32)
    return Image.fromarray((page.clip(0.0, 1.0) * 255).astype(np.uint8)), rows


def _paper(size: int, rng: np.random.Generator) -> Gray:
    """Light, slightly tinted, unevenly lit paper with a few faint lines."""
    tone = rng.uniform(0.84, 0.97) + rng.uniform(-0.03, 0.03, 3)
    lines = Image.new("L", (size, size))
    draw = ImageDraw.Draw(lines)
    for _ in range(int(rng.integers(0, 4))):
        ends = [int(edge) for edge in rng.integers(0, size, 4)]
        draw.line(ends, fill=int(rng.integers(30, 70)), width=int(rng.integers(1, 3)))
    corners = Image.fromarray(rng.uniform(-0.06, 0.06, (3, 3)).astype(np.float32))
    light = np.asarray(corners.resize((size, size), Image.Resampling.BICUBIC))
    page: Gray = (tone + (light - np.asarray(lines, dtype=np.float32) / 255.0)[..., None]).astype(np.float32)
    return page


def _glyph(stroke: Gray, height: float, rng: np.random.Generator) -> Gray:
    """Ink from 0 to 1, cropped to the digit: enlarged, a little stretched and turned, with firm edges."""
    padded = np.pad(stroke, 1)  # strokes reach the edge of the 8 x 8 and would be cut off flat
    tall = max(10, round(height * 10 / 8))
    wide = max(10, round(height * 10 / 8 * rng.uniform(0.85, 1.2)))
    big = Image.fromarray((padded * 255).astype(np.uint8)).resize((wide, tall), Image.Resampling.BICUBIC)
    turned = big.rotate(rng.uniform(-18.0, 18.0), resample=Image.Resampling.BICUBIC, expand=True)
    ink = ((np.asarray(turned, dtype=np.float32) / 255.0 - 0.30) / 0.35).clip(0.0, 1.0)
    rows, columns = np.flatnonzero((ink >= INK).any(axis=1)), np.flatnonzero((ink >= INK).any(axis=0))
    cropped: Gray = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return cropped


def _place(ink: Gray, size: int, rng: np.random.Generator) -> Box:
    tall, wide = ink.shape
    left, top = int(rng.integers(1, size - wide)), int(rng.integers(1, size - tall))
    return left, top, left + wide, top + tall


def _overlap(one: Box, other: Box) -> float:
    """Shared area as a part of the smaller box."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    tall = min(one[3], other[3]) - max(one[1], other[1])
    areas = ((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return max(0, wide) * max(0, tall) / min(areas)


def _print(page: Gray, ink: Gray, box: Box, rng: np.random.Generator) -> None:
    """Mixes a dark, unevenly strong colour into the page where there is ink."""
    left, top, right, bottom = box
    colour = rng.uniform(0.02, 0.42, 3).astype(np.float32)
    strength = np.linspace(rng.uniform(0.75, 1.0), rng.uniform(0.75, 1.0), ink.shape[1], dtype=np.float32)
    amount = (ink * strength)[..., None]
    page[top:bottom, left:right] = page[top:bottom, left:right] * (1.0 - amount) + colour * amount


if __name__ == "__main__":
    sys.exit(main())
