"""Data set, arguments and model are looked at by Ultralytics' own checks before anything is launched; a small training is made of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from autofit_launcher.trainers.suite import snapshot
from autofit_launcher.trainers.ultralytics import data as yolo_data

BOX = "0 0.5 0.5 0.2 0.2"
GOOD = "train: images/train\nval: images/val\nnames: {0: cat, 1: dog}\n"

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes a data set: YAML text, and label text by image name ("train/a"); None is an image without a label file."""

    def build(text: str = GOOD, labels: dict[str, str | None] | None = None, folder: str = "set") -> Path:
        root = tmp_path / folder
        for name, rows in ({"train/a": BOX, "train/b": BOX, "val/c": BOX} if labels is None else labels).items():
            image, label = root / "images" / f"{name}.jpg", root / "labels" / f"{name}.txt"
            image.parent.mkdir(parents=True, exist_ok=True)
            label.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.zeros((16, 16, 3), dtype=np.uint8)).save(image)
            if rows is not None:
                label.write_text(rows, encoding="utf-8")
        root.mkdir(exist_ok=True)
        (root / "data.yaml").write_text(text, encoding="utf-8")
        return root / "data.yaml"

    return build


@pytest.fixture
def look(yolo_exact: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, Any]]:
    """``inside.checked`` in this process, which ``yolo_exact`` has imported Ultralytics into."""
    from autofit_launcher.trainers.ultralytics.inside import checked

    monkeypatch.setattr(checked.utils, "check_font", lambda *_, **__: None)

    def found(data: Path | str, model: str = "", **args: Any) -> tuple[str, Any]:
        faults, facts = checked.check(str(data), model, args)
        return "\n".join(map(str, faults)), facts

    return found


def test_a_good_data_set_gives_its_images_and_nothing_is_written(make: Make, tmp_path: Path) -> None:
    yaml = make(labels={"train/a": f"{BOX}\n{BOX}", "train/deep/b": BOX, "train/none": None, "val/c": BOX})
    before = snapshot(tmp_path)
    facts, faults = yolo_data.inspect(str(yaml))
    assert faults == [] and facts is not None and facts.yaml_path == yaml
    assert [Path(image).name for image in (*facts.train, *facts.val)] == ["a.jpg", "b.jpg", "none.jpg", "c.jpg"]
    assert yolo_data.with_objects(facts.train, most=9) == [*facts.train[:2]]
    assert snapshot(tmp_path) == before


def test_a_data_set_is_looked_up_in_the_users_datasets_dir_and_every_fault_is_told_at_once(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config" / "Ultralytics").mkdir(parents=True)
    (tmp_path / "config" / "Ultralytics" / "settings.json").write_text(json.dumps({"datasets_dir": str(tmp_path / "sets")}))
    monkeypatch.setenv("YOLO_CONFIG_DIR", str(tmp_path / "config"))
    make(folder="sets/mine")
    facts, faults = yolo_data.inspect(str(make("path: mine\n" + GOOD, labels={}, folder="elsewhere")))
    assert faults == [] and facts is not None and facts.val == (str(tmp_path / "sets/mine/images/val/c.jpg"),)
    facts, faults = yolo_data.inspect("coco8.yaml", {"amp": 3, "multi_scale": 1.5, "epochs": 3}, model="mine.pt")
    assert facts is None and [fault.key for fault in faults] == ["trainer.args.amp", "trainer.args.multi_scale", "ask.model", "data"]
    assert f"{tmp_path}/sets/coco8/images/val" in faults[-1].found


def test_a_look_that_takes_too_long_or_fails_is_a_fault(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yolo_data, "LONGEST_S", 0.1)
    facts, (fault,) = yolo_data.inspect(str(make()))
    assert facts is None and "took longer than 0.1 s" in fault.found
    monkeypatch.setattr("autofit_launcher.machine.process.output_of", lambda *_, **__: (1, "ImportError: no cv2"))
    _, (fault,) = yolo_data.inspect(str(make()))
    assert "no cv2" in fault.found


@pytest.mark.parametrize(("text", "found"), [
    ("tarin: images/train\n", "'train:' key missing"), ("train: images/train\nval: [images/val\nnames: {0: cat}\n", "line 3, column 6"),
    (GOOD + "nc: 3\n", "'names' length 2 and 'nc: 3' must match"),
    (GOOD.replace("images/train", "images/training"), "images/training does not exist"),
    (GOOD.replace("images/val", "there"), "missing path"), (GOOD.replace("images/val", "labels"), "No images found in"),
])  # fmt: skip
def test_what_the_yaml_says_wrong_is_told_in_ultralytics_words(make: Make, look: Any, text: str, found: str) -> None:
    said, facts = look(yaml := make(text))
    assert said.startswith(f"{yaml}: data: ") and found in said and facts is None


@pytest.mark.parametrize(("name", "found"), [
    ("cocoo8.yaml", "'cocoo8.yaml' does not exist"), ("https://example.org/set.zip", "is no YAML file on this machine. Fetch and unpack"),
    ("pipe.yaml", "it is no plain file"),
])  # fmt: skip
def test_what_is_no_data_set_here_is_neither_fetched_nor_read(look: Any, tmp_path: Path, name: str, found: str) -> None:
    os.mkfifo("pipe.yaml")
    assert found in look(name)[0]


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("val:", "validation:"),
        GOOD.replace("images/train", "[images/train, images/val]"),
        GOOD.replace("images/train", "train.txt"),
    ],
)
def test_what_ultralytics_takes_is_taken(make: Make, look: Any, text: str) -> None:
    yaml = make(text)
    (yaml.parent / "train.txt").write_text(f"./images/train/a.jpg\n{yaml.parent}/images/train/b.jpg\nREADME.md\n")
    assert look(yaml)[0] == ""


@pytest.mark.parametrize(("model", "found"), [
    ("yolov8x.pt", ""), ("yolov5n.pt", ""), ("yolo11l-seg.yaml", ""), ("yolov8x6.yaml", ""), ("best.pt", "no weights of that name"),
    ("mine.yaml", "'mine.yaml' does not exist"),
])  # fmt: skip
def test_a_model_that_is_not_here_is_one_that_ultralytics_has(make: Make, look: Any, model: str, found: str) -> None:
    said, _ = look(make(), model)
    assert found in said and bool(said) is bool(found)
