"""Reads the label files of a YOLO dataset: counts, and every bad row.

A row is judged as Ultralytics 8.4 does (``data/utils.py: verify_image_label``). Only reads.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

MOST_CHECKED = 20_000
"""More images of a split than this are checked by an even sample of this size."""
_CHUNK = 500

FORMATS = {
    "detect": "A row for task=detect has 5 columns: class x y width height.",
    "segment": "A row for task=segment has 7 columns or more, an odd number: class x1 y1 x2 y2 x3 y3 ...",
    "pose": "A row for task=pose has {columns} columns here: class x y width height, then the keypoints of kpt_shape.",
    "obb": "A row for task=obb has 9 columns: class x1 y1 x2 y2 x3 y3 x4 y4.",
}
"""Task -> what a row of its label files looks like."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What a row of a label file must look like."""

    task: str
    classes: int
    """0: unknown, since the YAML is at fault; class ids are not checked then."""
    kpt_shape: tuple[int, int] = (0, 0)
    """Keypoints and numbers for each (2 or 3); (0, 0) where there are none."""
    single_cls: bool = False
    """Every class id counts as 0."""

    @property
    def pose_columns(self) -> int:
        return 5 + self.kpt_shape[0] * self.kpt_shape[1] if self.kpt_shape[0] else 0

    @property
    def row_format(self) -> str:
        return FORMATS[self.task].format(columns=self.pose_columns)


@dataclass(frozen=True, slots=True)
class BadRow:
    """One row that Ultralytics would drop its image for."""

    kind: str
    """"number", "columns", "mixed", "class" or "coordinate"."""
    path: str
    line: int
    found: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.found}"


@dataclass(kw_only=True, slots=True)
class Found:
    """What the label files of some images hold."""

    images: int = 0
    """Images looked at."""
    rows: int = 0
    most: int = 0
    """Rows of the longest file, duplicates counted once."""
    labelled: int = 0
    """Images with at least one row and nothing wrong."""
    bad_images: list[str] = field(default_factory=list)
    """Image files of 0 bytes, or links to nowhere."""
    bad_labels: int = 0
    """Label files with at least one bad row."""
    bad_rows: list[BadRow] = field(default_factory=list)
    as_boxes: int = 0
    """Polygon rows that task=detect turns into their boxes."""
    odd_corners: int = 0
    """OBB rows with another number of corners than four, which Ultralytics fits a box to."""

    def add(self, other: Found) -> None:
        self.images += other.images
        self.rows += other.rows
        self.most = max(self.most, other.most)
        self.labelled += other.labelled
        self.bad_images += other.bad_images
        self.bad_labels += other.bad_labels
        self.bad_rows += other.bad_rows
        self.as_boxes += other.as_boxes
        self.odd_corners += other.odd_corners


def check(images: Sequence[str], rules: Rules) -> Found:
    """Reads the label file of every image, or of an even sample of ``MOST_CHECKED``, in threads."""
    chosen = images
    if len(images) > MOST_CHECKED:
        chosen = [images[i * len(images) // MOST_CHECKED] for i in range(MOST_CHECKED)]
    chunks = [chosen[start : start + _CHUNK] for start in range(0, len(chosen), _CHUNK)]
    found = Found()
    with ThreadPoolExecutor(max_workers=min(8, (os.cpu_count() or 1) + 2)) as pool:  # helps where the disk is slow
        for part in pool.map(lambda chunk: _read(chunk, rules), chunks):
            found.add(part)
    return found


def label_path(image: str) -> str:
    """Where Ultralytics looks for an image's labels: the last /images/ becomes /labels/, the suffix .txt."""
    return f"{os.sep}labels{os.sep}".join(image.rsplit(f"{os.sep}images{os.sep}", 1)).rsplit(".", 1)[0] + ".txt"


def _read(images: Sequence[str], rules: Rules) -> Found:
    found = Found(images=len(images))
    for image in images:
        try:
            whole = os.stat(image).st_size > 0
        except OSError:
            whole = False
        if not whole:
            found.bad_images.append(image)
        path = label_path(image)
        try:
            with open(path, encoding="utf-8-sig") as file:
                text = file.read()
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            found.bad_rows.append(BadRow("number", path, 1, f"can't be read as text ({type(error).__name__})"))
            found.bad_labels += 1
            continue
        rows = [(number, words) for number, line in enumerate(text.splitlines(), 1) if (words := line.split())]
        if not rows:
            continue
        good = _check_file(path, rows, rules, found)
        found.bad_labels += not good
        found.labelled += good and whole
        found.rows += len(rows)
        if len(rows) > found.most:
            found.most = max(found.most, len({tuple(words) for _, words in rows}))
    return found


def _check_file(path: str, rows: Sequence[tuple[int, list[str]]], rules: Rules, found: Found) -> bool:
    """Whether every row is right; each wrong one is written down once, under its first fault."""
    polygons = rules.task != "pose" and any(len(words) > 6 and len(words) != rules.pose_columns for _, words in rows)
    before = len(found.bad_rows)
    for number, words in rows:
        problem = _problem(words, rules, polygons)
        if problem is not None:
            found.bad_rows.append(BadRow(problem[0], path, number, problem[1]))
    if polygons and rules.task == "detect":
        found.as_boxes += len(rows)
    elif polygons and rules.task == "obb":
        found.odd_corners += sum(len(words) != 9 for _, words in rows)
    return len(found.bad_rows) == before


def _problem(words: list[str], rules: Rules, polygons: bool) -> tuple[str, str] | None:
    """(kind, what is wrong), or None; coordinates may lie 1 % outside the image. ``polygons``: the file holds some."""
    try:
        values = [float(word) for word in words]
    except ValueError:
        wrong = next(word for word in words if not _is_number(word))
        return "number", f"{wrong[:40]!r} is not a number"
    columns = len(values)
    if rules.task == "pose":
        if columns != rules.pose_columns and rules.pose_columns:
            return "columns", f"{columns} columns where {rules.pose_columns} belong"
    elif rules.task == "detect" and not polygons:
        if columns not in (5, rules.pose_columns):
            return "columns", f"{columns} columns where 5 belong"
        del values[5:]  # a pose dataset trains a detector, too
    elif columns < 7 or columns % 2 == 0:
        if rules.task == "detect":
            return "mixed", f"{columns} columns in a file of polygons"
        return "columns", f"{columns} columns where {'9' if rules.task == 'obb' else '7, 9, 11 ...'} belong"
    if columns < 5:  # pose without a kpt_shape: the YAML is at fault already
        return "columns", f"{columns} columns where 5 or more belong"
    if not all(map(math.isfinite, values)):
        return "number", "nan or inf is no number to train on"
    number = values[0]
    if number != int(number):
        return "class", f"class {words[0]} is not a whole number"
    if number < 0 or (number >= rules.classes > 0 and not rules.single_cls):
        last = rules.classes - 1
        return "class", f"class {int(number)} is outside 0 to {last}" if rules.classes else f"class {int(number)}"
    return _outside(values, rules, polygons)


def _outside(values: Sequence[float], rules: Rules, polygons: bool) -> tuple[str, str] | None:
    """As verify_image_label: a polygon's box counts, not its corners; of a pose, the keypoints' upper bound only."""
    if polygons:
        xs, ys = values[1::2], values[2::2]
        left, right, top, bottom = min(xs), max(xs), min(ys), max(ys)
        low = box = [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]
        high = max(box)
    else:
        box, low = list(values[1:5]), list(values[1:])
        step = rules.kpt_shape[1]
        pose = rules.task == "pose" and step
        high = max([*values[5::step], *values[6::step]] if pose else box)
    if high > 1.01:
        return "coordinate", f"coordinate {high:g} is above 1"
    if min(low) < -0.01 or min(box[2:]) < 0:
        return "coordinate", f"coordinate {min(low):g} is below 0"
    return None


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
