"""examples/digits/make_digits.py: the demo dataset, its boxes, and what it does with folders that are there already."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from launcher.trainers.ultralytics import data as yolo_data
from tests.helpers.places import ROOT

SCRIPT = ROOT / "examples" / "digits" / "make_digits.py"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_digits", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


make_digits = _load()


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 training pages and 5 for validation, made once."""
    folder: Path = tmp_path_factory.mktemp("made") / "digits"
    assert make_digits.main([str(folder), "--pages", "20", "--size", "192"]) == 0
    return folder


def rows(folder: Path, split: str) -> dict[str, list[tuple[int, float, float, float, float]]]:
    """Rows of every label file: class, then left, top, right, bottom in fractions of the page."""
    pages = {}
    for file in sorted((folder / "labels" / split).glob("*.txt")):
        boxes = []
        for line in file.read_text().splitlines():
            digit, x, y, w, h = (float(word) for word in line.split())
            boxes.append((int(digit), x - w / 2, y - h / 2, x + w / 2, y + h / 2))
        pages[file.stem] = boxes
    return pages


def test_the_dataset_passes_autofits_own_check(digits: Path) -> None:
    facts, faults = yolo_data.inspect(str(digits / "data.yaml"), "detect")
    assert faults == []
    assert facts is not None
    assert (len(facts.train), len(facts.val), facts.notes) == (20, 5, ())


def test_pages_hold_3_to_8_digits_and_every_tenth_about_16(digits: Path) -> None:
    counts = [len(boxes) for boxes in rows(digits, "train").values()]
    assert all(13 <= count <= 18 for count in counts[9::10])
    assert all(3 <= count <= 8 for i, count in enumerate(counts) if i % 10 != 9)


def test_classes_are_balanced(digits: Path) -> None:
    counts = Counter(box[0] for boxes in rows(digits, "train").values() for box in boxes)
    assert set(counts) == set(range(10))
    assert max(counts.values()) - min(counts.values()) <= 3


def test_boxes_enclose_their_ink_tightly(digits: Path) -> None:
    """Ink is much darker than its paper, so the first and last dark row and column are the box's edges, save where one
    of the paper's lines runs by."""
    checked = right_ones = 0
    for page, boxes in rows(digits, "train").items():
        image = np.asarray(Image.open(digits / "images" / "train" / f"{page}.jpg").convert("L"), dtype=float)
        size = image.shape[0]
        for _, *edges in boxes:
            left, top, right, bottom = (round(edge * size) for edge in edges)
            if any(_near(edges, other[1:]) for other in boxes if list(other[1:]) != edges):
                continue
            x, y = max(0, left - 6), max(0, top - 6)
            around = image[y : bottom + 6, x : right + 6]
            dark = around < np.quantile(around, 0.95) - 75
            across, down = np.flatnonzero(dark.any(axis=0)), np.flatnonzero(dark.any(axis=1))
            found = (x + across[0], y + down[0], x + across[-1] + 1, y + down[-1] + 1)
            right_ones += bool(np.abs(np.subtract(found, (left, top, right, bottom))).max() <= 2)
            checked += 1
    assert checked > 60
    assert right_ones >= 0.9 * checked


def _near(one: list[float], other: tuple[float, ...], gap: float = 0.05) -> bool:
    across = one[0] - gap < other[2] and other[0] - gap < one[2]
    return across and one[1] - gap < other[3] and other[1] - gap < one[3]


def test_digits_hardly_overlap(digits: Path) -> None:
    for boxes in rows(digits, "train").values():
        pixels = [tuple(round(edge * 192) for edge in box[1:]) for box in boxes]
        for i, one in enumerate(pixels):
            assert all(make_digits._overlap(one, other) <= make_digits.MOST_OVERLAP for other in pixels[:i])


def test_the_same_parameters_give_the_same_bytes_and_another_seed_others(digits: Path, tmp_path: Path) -> None:
    def everything(folder: Path) -> dict[str, bytes]:
        return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}

    make_digits.main([str(tmp_path / "again"), "--pages", "20", "--size", "192"])
    assert everything(tmp_path / "again") == everything(digits)
    make_digits.main([str(tmp_path / "other"), "--pages", "2", "--size", "192", "--seed", "1"])
    page = Path("labels/train/0000.txt")
    assert (tmp_path / "other" / page).read_bytes() != (digits / page).read_bytes()


def test_a_dataset_that_is_there_is_used_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "digits"
    make_digits.main([str(folder), "--pages", "2", "--size", "128"])
    before = (folder / "data.yaml").stat().st_mtime_ns
    assert capsys.readouterr().out.startswith(f"{folder}/data.yaml: 2 training and 1 validation pages of 128 px with ")
    make_digits.main([str(folder), "--pages", "2", "--size", "128"])
    assert capsys.readouterr().out == f"{folder}/data.yaml is there already, with the same parameters\n"
    assert (folder / "data.yaml").stat().st_mtime_ns == before


def test_other_parameters_replace_ones_own_dataset_and_leave_nothing_beside(tmp_path: Path) -> None:
    folder = tmp_path / "digits"
    for pages in ("2", "3"):
        assert make_digits.main([str(folder), "--pages", pages, "--size", "128"]) == 0
    assert len(list((folder / "images" / "train").iterdir())) == 3
    assert [entry.name for entry in tmp_path.iterdir()] == ["digits"]


def test_a_folder_of_someone_else_is_never_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("all of it")
    assert make_digits.main([str(tmp_path)]) == 1
    assert capsys.readouterr().err == (f"make_digits: {tmp_path} holds something that was not made here; name another place\n")
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]
    (tmp_path / "link").symlink_to(tmp_path)
    assert make_digits.main([str(tmp_path / "link")]) == 1
    assert capsys.readouterr().err.endswith("link is not a folder; name another place\n")


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    assert make_digits.main([str(tmp_path / "made" / ".."), "--pages", "1", "--size", "128"]) == 0
    assert (tmp_path / "data.yaml").is_file()


def test_impossible_numbers_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        make_digits.main(["anywhere", "--pages", "0"])
    assert "--pages must be at least 1" in capsys.readouterr().err
