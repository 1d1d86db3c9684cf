"""A data set is looked at by Ultralytics' own checks before anything is launched: one small data set for each fault."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from autofit_launcher.errors import Fault
from autofit_launcher.trainers.suite import snapshot
from autofit_launcher.trainers.ultralytics import data as yolo_data

BOX = "0 0.5 0.5 0.2 0.2"
TRIANGLE = "0 0.1 0.1 0.9 0.1 0.5 0.9"
CORNERS = "0 0.1 0.1 0.9 0.1 0.9 0.9 0.1 0.9"
POINTS = BOX + " 0.1 0.1 2 0.2 0.2 1"
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


@pytest.fixture(scope="session")
def checked(quiet_environment: dict[str, str]) -> Any:
    """``inside.checked`` in this process: Ultralytics reads its settings at import, and asks for the network."""
    with pytest.MonkeyPatch.context() as patch:
        for key, value in quiet_environment.items():
            if key.startswith("YOLO_") or key == "MPLCONFIGDIR":
                patch.setenv(key, value)
        from autofit_launcher.trainers.ultralytics.inside import checked
    return checked


@pytest.fixture
def faults_of(checked: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Fault]]:
    for module, name in ((checked.dataset, "save_dataset_cache_file"), (checked.utils, "check_font")):
        monkeypatch.setattr(module, name, lambda *_, **__: None)

    def faults(data: Path | str, task: str = "detect", **args: Any) -> list[Fault]:
        found, facts = checked.check(str(data), task, args)
        assert found or facts
        return list(found)

    return faults


# ---- in a child, as a launch does


def test_a_good_data_set_gives_its_images_and_nothing_is_written(make: Make, tmp_path: Path) -> None:
    yaml = make(labels={"train/a": f"{BOX}\n{BOX}", "train/deep/b": BOX, "train/none": None, "train/empty": "\n", "val/c": BOX})
    torn = yaml.parent / "images" / "train" / "torn.jpg"
    torn.write_bytes((yaml.parent / "images" / "train" / "a.jpg").read_bytes() + b"x")  # Ultralytics would write it anew
    before = snapshot(tmp_path)
    facts, faults = yolo_data.inspect(str(yaml), "detect")
    assert faults == [] and facts is not None and facts.yaml_path == yaml
    assert [Path(image).name for image in (*facts.train, *facts.val)] == ["a.jpg", "b.jpg", "empty.jpg", "none.jpg", "torn.jpg", "c.jpg"]
    assert facts.notes == ("train: 2 of 5 images have no labels and count as backgrounds",)
    assert snapshot(tmp_path) == before


def test_every_fault_of_data_and_arguments_is_told_at_once(make: Make) -> None:
    yaml = make(labels={"train/a": "9 0.5 0.5 0.1 0.1", "train/b": "0 0.5", "val/c": BOX})
    (yaml.parent / "images" / "val" / "c.jpg").write_bytes(b"")
    facts, faults = yolo_data.inspect(str(yaml), "detect", {"amp": 3, "multi_scale": 1.5, "epochs": 3})
    assert facts is not None and [fault.key for fault in faults] == ["trainer.args.amp", "trainer.args.multi_scale", *["data"] * 3]


def test_a_path_is_looked_up_in_the_users_datasets_dir_and_a_download_never_fetched_names_the_command(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config" / "Ultralytics").mkdir(parents=True)
    (tmp_path / "config" / "Ultralytics" / "settings.json").write_text(json.dumps({"datasets_dir": str(tmp_path / "sets")}))
    monkeypatch.setenv("YOLO_CONFIG_DIR", str(tmp_path / "config"))
    make(folder="sets/mine")
    facts, faults = yolo_data.inspect(str(make("path: mine\n" + GOOD, labels={}, folder="elsewhere")), "detect")
    assert faults == [] and facts is not None and facts.val == (str(tmp_path / "sets/mine/images/val/c.jpg"),)
    facts, faults = yolo_data.inspect("coco8", "detect")
    assert facts is None and [fault.key for fault in faults] == ["train", "val"]
    assert faults[0].found == f"{tmp_path}/sets/coco8/images/train doesn't exist" and "yolo detect train data=coco8.yaml" in faults[0].cure


def test_a_look_that_takes_too_long_or_fails_is_a_fault(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yolo_data, "LONGEST_S", 0.1)
    facts, (fault,) = yolo_data.inspect(str(make()), "detect")
    assert facts is None and "took longer than 0.1 s" in fault.found
    monkeypatch.setattr("autofit_launcher.machine.process.output_of", lambda *_, **__: (1, "ImportError: no cv2"))
    _, (fault,) = yolo_data.inspect(str(make()), "detect")
    assert "no cv2" in fault.found


# ---- the YAML


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("set/dataset.yaml", "set/dataset.yaml doesn't exist. Did you mean 'set/data.yaml'?"),
        ("cocoo8.yaml", "cocoo8.yaml doesn't exist. Did you mean 'coco8.yaml'?"),
        ("https://example.org/set.zip", "is no YAML file on this machine. Fetch and unpack it"),
        ("set", "set is no YAML file on this machine"),
        ("pipe.yaml", "it is no plain file"),
    ],
)
def test_a_file_that_is_none_is_named_with_what_would_be(
    make: Make, faults_of: Callable[..., list[Fault]], tmp_path: Path, name: str, said: str
) -> None:
    make()
    os.mkfifo("pipe.yaml")
    (fault,) = faults_of(name)
    assert fault.key in ("data", "") and said in str(fault)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("tarin: images/train\n", ["train: is missing. It has tarin.", "val: is missing"]),
        ("train: images/train\nval: [images/val\nnames: {0: cat}\n", ["line 3, column 6"]),
        (GOOD + "nc: 3\n", ["'names' length 2 and 'nc: 3' must match"]),
        (GOOD.replace("names: {0: cat, 1: dog}", ""), ["either 'names' or 'nc' are required"]),
        (GOOD.replace("images/train", "images/training"), ["images/training doesn't exist. Paths are relative to path, which is"]),
        (GOOD.replace("images/train", "here").replace("images/val", "there"), ["train: ", "val: "]),
        (GOOD.replace("images/val", "labels"), ["val: No images found in"]),
    ],
)
def test_what_the_yaml_says_wrong_is_told_at_once(make: Make, faults_of: Callable[..., list[Fault]], text: str, found: list[str]) -> None:
    yaml = make(text)
    said = "\n".join(map(str, faults_of(yaml)))
    assert all(one in said for one in (str(yaml), *found)), said


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("val:", "validation:"),
        GOOD.replace("train: images/train", "train: [images/train, images/val]"),
        GOOD.replace("train: images/train", "train: train.txt"),
        GOOD.replace("images/train", "../images/train"),  # leads nowhere: Ultralytics drops the dots
    ],
)
def test_what_ultralytics_takes_is_taken(make: Make, faults_of: Callable[..., list[Fault]], text: str) -> None:
    yaml = make(text)
    (yaml.parent / "train.txt").write_text(f"./images/train/a.jpg\n{yaml.parent}/images/train/b.jpg\nREADME.md\n")
    assert faults_of(yaml) == []


# ---- images and labels


@pytest.mark.parametrize(
    ("task", "row", "found"),
    [
        ("detect", "0 0.5 0.5 320 200", "out of bounds coordinates"),
        ("detect", "0 0.5 0.5 0.1 0.1 0.9", "5 columns"),
        ("detect", "cat 0.5 0.5 0.1 0.1", "'cat'"),
        ("detect", "2 0.5 0.5 0.1 0.1", "Label class 2 exceeds dataset class count 2"),
        ("detect", f"{TRIANGLE}\n{BOX}", "labels mix segment and detection rows"),
        ("segment", BOX, "its labels are boxes"),
        ("obb", BOX, "its labels are boxes"),
        ("pose", BOX, "11 columns"),
    ],
)
def test_bad_rows_are_named_by_their_image_and_what_a_row_is(
    make: Make, faults_of: Callable[..., list[Fault]], task: str, row: str, found: str
) -> None:
    good = {"detect": BOX, "segment": TRIANGLE, "obb": CORNERS, "pose": POINTS}[task]
    yaml = make(GOOD + "kpt_shape: [2, 3]\n" * (task == "pose"), {"train/a": f"\n{row}", "train/b": good, "val/c": good})
    (fault,) = faults_of(yaml, task)
    assert fault.found.startswith(f"1 of 2 train images: {yaml.parent}/images/train/a.jpg: ") and found in fault.found
    assert "A row" in fault.cure


def test_a_single_class_takes_any_id(make: Make, faults_of: Callable[..., list[Fault]]) -> None:
    assert faults_of(make(labels={"train/a": "7 .5 .5 .1 .1", "val/c": BOX}), single_cls=True) == []


def test_images_that_are_missing_empty_or_linked_to_nowhere_are_counted(make: Make, faults_of: Callable[..., list[Fault]]) -> None:
    yaml = make(GOOD.replace("train: images/train", "train: train.txt"))
    (yaml.parent / "train.txt").write_text("./images/train/a.jpg\n./images/train/y.jpg\n./images/train/z.jpg\n")
    (yaml.parent / "images/val/c.jpg").write_bytes(b"")
    missing, corrupt = faults_of(yaml)
    assert missing.found.startswith("2 of 3 train images: ") and "z.jpg" in missing.found and "No such file" in missing.found
    assert corrupt.found.startswith("1 of 1 val images: ")


def test_a_training_without_any_label_is_refused_and_a_validation_is_told(make: Make, faults_of: Callable[..., list[Fault]]) -> None:
    yaml = make(labels={"train/a": None, "train/b": None, "val/c": BOX})
    (fault,) = faults_of(yaml)
    assert "none of 2 training images has a label" in str(fault) and f"{yaml.parent}/labels/train/" in fault.cure


def test_of_many_images_a_sample_is_opened(
    make: Make, faults_of: Callable[..., list[Fault]], checked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked, "MOST", 10)
    yaml = make(labels={f"train/{number:03}": BOX for number in range(40)} | {"val/c": None})
    found, facts = checked.check(str(yaml), "detect", {})
    assert found == [] and len(facts["train"]) == 40
    assert facts["notes"] == [
        "train: a sample of 10 of 40 images was checked",
        "val: no image has a label, so mAP stays 0 and the best checkpoint means nothing",
    ]
