"""launcher.trainers.ultralytics.data and yolo_labels: one small dataset for each fault, named for it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.errors import Fault
from launcher.trainers.ultralytics import data as yolo_data
from launcher.trainers.ultralytics import labels as yolo_labels
from launcher.trainers.ultralytics import models as yolo_models
from launcher.trainers.ultralytics.data import DatasetFacts

BOX = "0 0.5 0.5 0.2 0.2"
TRIANGLE = "0 0.1 0.1 0.9 0.1 0.5 0.9"
CORNERS = "0 0.1 0.1 0.9 0.1 0.9 0.9 0.1 0.9"
GOOD = "train: images/train\nval: images/val\nnames: {0: cat, 1: dog}\n"

Make = Callable[..., Path]


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config"
    (config / "Ultralytics").mkdir(parents=True)
    settings = {"datasets_dir": str(tmp_path / "sets"), "weights_dir": str(tmp_path / "weights")}
    (config / "Ultralytics" / "settings.json").write_text(json.dumps(settings))
    monkeypatch.setenv("YOLO_CONFIG_DIR", str(config))


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes a dataset: YAML text, and label text by image name ("train/a"); None is an image without a label file."""

    def build(text: str = GOOD, labels: dict[str, str | None] | None = None, folder: str = "set") -> Path:
        root = tmp_path / folder
        for name, rows in ({"train/a": BOX, "train/b": BOX, "val/c": BOX} if labels is None else labels).items():
            image, label = root / "images" / f"{name}.jpg", root / "labels" / f"{name}.txt"
            image.parent.mkdir(parents=True, exist_ok=True)
            label.parent.mkdir(parents=True, exist_ok=True)
            image.write_bytes(b"an image")
            if rows is not None:
                label.write_text(rows, encoding="utf-8")
        root.mkdir(exist_ok=True)
        (root / "data.yaml").write_text(text, encoding="utf-8")
        return root / "data.yaml"

    return build


def facts_of(data: Path | str, task: str = "detect") -> DatasetFacts:
    facts, faults = yolo_data.inspect(str(data), task, None)
    assert faults == []
    assert facts is not None
    return facts


def faults_of(data: Path | str, task: str = "detect") -> list[Fault]:
    _, faults = yolo_data.inspect(str(data), task, None)
    return faults


def only_fault(data: Path | str, task: str = "detect") -> str:
    (fault,) = faults_of(data, task)
    return str(fault)


# ---- what is right


def test_a_good_dataset_gives_its_facts(make: Make) -> None:
    labels = {"train/a": f"{BOX}\n1 0.1 0.1 0.1 0.1\n{BOX}\n", "train/deep/b": BOX, "val/c": BOX}
    facts = facts_of(make(GOOD + "channels: 1\n", labels))
    assert (facts.train_images, facts.val_images, facts.labels) == (2, 1, 5)
    assert facts.most_labels == 2  # Ultralytics drops a row that is there twice
    assert facts.names == ("cat", "dog")
    assert facts.root == facts.yaml_path.parent
    assert (facts.channels, facts.bad_images, facts.notes) == (1, 0, ())


def test_images_without_labels_are_backgrounds(make: Make) -> None:
    facts = facts_of(make(labels={"train/a": BOX, "train/b": None, "train/empty": "\n", "val/c": BOX}))
    assert facts.notes == ("train: 2 of 3 images have no labels and count as backgrounds",)


def test_a_folder_stands_for_the_yaml_in_it(make: Make) -> None:
    yaml = make()
    assert facts_of(yaml.parent).yaml_path == yaml


def test_validation_is_an_alias_of_val(make: Make) -> None:
    assert facts_of(make(GOOD.replace("val:", "validation:"))).val_images == 1


def test_nc_alone_names_the_classes(make: Make) -> None:
    assert facts_of(make("train: images/train\nval: images/val\nnc: '2'\n")).names == ("class_0", "class_1")


def test_train_can_be_a_list_of_folders(make: Make) -> None:
    assert facts_of(make(GOOD.replace("train: images/train", "train: [images/train, images/val]"))).train_images == 3


def test_train_can_be_a_text_file_of_images(make: Make) -> None:
    yaml = make(GOOD.replace("train: images/train", "train: train.txt"))
    absolute = yaml.parent / "images" / "train" / "b.jpg"
    (yaml.parent / "train.txt").write_text(f"\ufeff./images/train/a.jpg\n{absolute}\nREADME.md\n", encoding="utf-8")
    assert facts_of(yaml).train_images == 2


def test_path_is_looked_up_in_the_users_datasets_dir(make: Make) -> None:
    make(folder="sets/mine")
    yaml = make("path: mine\n" + GOOD, labels={}, folder="elsewhere")
    assert facts_of(yaml).root == yaml.parent.parent / "sets" / "mine"


def test_a_leading_dot_dot_that_leads_nowhere_is_dropped_as_ultralytics_does(make: Make) -> None:
    assert facts_of(make(GOOD.replace("images/train", "../images/train"))).train_images == 2


def test_coordinates_may_lie_one_percent_outside(make: Make) -> None:
    facts_of(make(labels={"train/a": "0 -0.005 0.5 1.005 0.2", "val/c": BOX}))


def test_polygons_train_a_detector_with_a_note(make: Make) -> None:
    facts = facts_of(make(labels={"train/a": TRIANGLE, "val/c": BOX}))
    assert facts.notes == ("train: 1 rows are polygons; Ultralytics trains on their boxes",)


@pytest.mark.parametrize(
    ("task", "row", "extra"),
    [
        ("segment", TRIANGLE, ""),
        ("obb", CORNERS, ""),
        ("obb", "0 -0.05 0.1 0.9 -0.05 0.9 0.9 0.1 0.9", ""),  # a corner outside is fine where its box is inside
        ("pose", BOX + " 0.1 0.1 2 0.2 0.2 1", "kpt_shape: [2, 3]\n"),
        ("pose", BOX + " 0.1 0.1 0.2 0.2", "kpt_shape: [2, 2]\n"),
        ("detect", BOX + " 0.1 0.1 0.2 0.2", "kpt_shape: [2, 2]\n"),
    ],
)
def test_rows_of_every_task_are_understood(make: Make, task: str, row: str, extra: str) -> None:
    assert facts_of(make(GOOD + extra, {"train/a": row, "val/c": row}), task).labels == 2


def test_nothing_is_written(make: Make, tmp_path: Path) -> None:
    def everything() -> list[tuple[str, int]]:
        return sorted((str(path), path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))

    yaml = make()
    before = everything()
    facts_of(yaml)
    assert everything() == before


# ---- the YAML


def test_yaml_missing_suggests_the_one_nearby(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make()
    monkeypatch.chdir(tmp_path)
    assert only_fault("set/dataset.yaml") == "data: set/dataset.yaml doesn't exist. Did you mean set/data.yaml?"
    assert only_fault("sett/data.yaml") == "data: sett/data.yaml doesn't exist. Did you mean set/data.yaml?"
    assert only_fault("cocoo8.yaml").startswith("data: cocoo8.yaml doesn't exist. Did you mean coco8.yaml?")


def test_yaml_broken_names_line_and_column(make: Make) -> None:
    yaml = make("train: images/train\nval: [images/val\nnames: {0: cat}\n")
    assert only_fault(yaml) == (
        f"{yaml}:3:6: is not valid YAML: did not find expected ',' or ']'. "
        "Indent with blanks, put a blank after each colon, and quote values with special characters."
    )


def test_yaml_that_is_a_list_is_refused(make: Make) -> None:
    yaml = make("- train\n- val\n")
    assert only_fault(yaml) == f"{yaml}: holds a list, not keys with values. Write train:, val: and names: lines."


def test_keys_missing_are_told_all_at_once(make: Make) -> None:
    faults = faults_of(make("tarin: images/train\n"))
    assert [(fault.key, fault.found) for fault in faults] == [
        ("train", "is missing"),
        ("val", "is missing"),
        ("names", "is missing, and nc too"),
    ]
    assert faults[0].cure == "Name the folder of its images, relative to path. Did you mean train where tarin stands?"


@pytest.mark.parametrize(
    ("lines", "key", "found", "cure"),
    [
        ("names: [cat, dog]\nnc: 3", "nc", "is 3, but names has 2 entries", "Leave nc out, or set it to 2."),
        ("nc: two", "nc", "is 'two'", "It must be the number of classes; or leave it out beside names."),
        ("names: []", "names", "is empty", "At least one class is needed."),
        ("names: cat", "names", "is 'cat', a str", "It must be a list or dict."),
        ("names: {1: a, 2: b}", "names", "has 2 classes with ids 1 to 2", "Ids must run from 0 to 1; 0 is missing."),
        ("names: {cat: 0}", "names", "has 'cat' where a class id belongs", "Write the id first: names: {0: cat}."),
        ("names: [a, b]\nchannels: x", "channels", "is 'x'", "It must be a number of image channels, 1 or 3 mostly."),
    ],
)
def test_classes_that_do_not_add_up_are_refused(make: Make, lines: str, key: str, found: str, cure: str) -> None:
    yaml = make(f"train: images/train\nval: images/val\n{lines}\n")
    (fault,) = [fault for fault in faults_of(yaml) if fault.key]
    assert (fault.where, fault.key, fault.found, fault.cure) == (str(yaml), key, found, cure)


def test_pose_without_kpt_shape_is_refused(make: Make) -> None:
    (fault,) = faults_of(make(labels={"train/a": BOX, "val/c": BOX}), "pose")
    assert (fault.key, fault.found) == ("kpt_shape", "is missing")
    assert fault.cure.endswith("such as kpt_shape: [17, 3].")


def test_tasks_with_other_data_are_refused(make: Make) -> None:
    assert only_fault(make(), "classify") == (
        "task: 'classify' is not a task whose data autofit can check. Choose one of detect, segment, pose, obb."
    )


@pytest.mark.parametrize("data", ["https://example.org/set.zip", "ul://someone/datasets/set", "set.ndjson"])
def test_data_that_is_not_on_this_machine_is_refused(data: str) -> None:
    assert only_fault(data).startswith(f"data: {data!r} is not a dataset on this machine. Fetch it first")


def test_an_archive_is_to_be_unpacked_first(tmp_path: Path) -> None:
    (tmp_path / "set.zip").write_bytes(b"PK")
    assert only_fault(tmp_path / "set.zip").endswith("is not a YAML file. Unpack it and name the data.yaml in it.")


def test_a_folder_with_several_yamls_asks_which(make: Make) -> None:
    yaml = make()
    (yaml.parent / "other.yaml").write_text(GOOD)
    assert f"{yaml.parent} holds 2 YAML files. Name one of them: {yaml}, " in only_fault(yaml.parent)


def test_a_download_never_fetched_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for data in ("coco8.yaml", "coco8"):
        faults = faults_of(data)
        assert [fault.key for fault in faults] == ["train", "val"]
        missing = tmp_path / "sets" / "coco8" / "images" / "train"
        assert faults[0].found == f"{missing} isn't there: this dataset is a download that was never fetched"
        assert "yolo detect train data=coco8.yaml model=yolo11n.yaml epochs=1 imgsz=32" in faults[0].cure
        assert faults[0].cure.endswith(f"It goes to {tmp_path / 'sets'}.")


# ---- the images


def test_train_missing_suggests_the_folder_that_is_there(make: Make) -> None:
    yaml = make(GOOD.replace("images/train", "images/training"))
    root = yaml.parent
    assert only_fault(yaml) == (
        f"{yaml}: train: {root}/images/training doesn't exist. Paths are relative to path, which is {root} here. "
        f"Did you mean {root}/images/train?"
    )


def test_val_without_images_is_refused(make: Make) -> None:
    yaml = make(labels={"train/a": BOX})
    (yaml.parent / "images" / "val").mkdir()
    (yaml.parent / "images" / "val" / "notes.md").write_text("no image")
    (fault,) = faults_of(yaml)
    assert (fault.key, fault.found) == ("val", f"{yaml.parent}/images/val holds no images")
    assert "jpg" in fault.cure


def test_listed_images_missing_are_counted_with_their_lines(make: Make) -> None:
    yaml = make(GOOD.replace("train: images/train", "train: train.txt"))
    listed = yaml.parent / "train.txt"
    listed.write_text("./images/train/a.jpg\n./images/train/z.jpg\nimages/train/b.jpg\n")
    fault = only_fault(yaml)
    lines = f"{listed}:2: ./images/train/z.jpg; {listed}:3: images/train/b.jpg"
    assert f"2 of 3 listed images don't exist: {lines}" in fault


def test_images_zero_bytes_are_refused(make: Make) -> None:
    yaml = make()
    image = yaml.parent / "images" / "train" / "b.jpg"
    image.write_bytes(b"")
    assert only_fault(yaml) == (
        f"data: 1 image file of 0 bytes or linked to nowhere: {image}. Copy them again, or delete them with their label files."
    )
    image.unlink()
    image.symlink_to("gone.jpg")
    assert "linked to nowhere" in only_fault(yaml)


def test_a_link_to_a_folder_above_does_not_go_on_for_ever(make: Make) -> None:
    yaml = make()
    (yaml.parent / "images" / "train" / "loop").symlink_to(yaml.parent / "images" / "train")
    assert facts_of(yaml).train_images == 4  # Ultralytics' glob would list them until the path is too long


# ---- the labels


def test_all_images_without_labels_is_refused(make: Make) -> None:
    yaml = make(labels={"train/a": None, "train/b": None, "val/c": BOX})
    assert only_fault(yaml) == (
        f"{yaml}: train: none of the 2 training images has a label: {yaml.parent}/labels/train/a.txt doesn't exist, "
        "for one. Labels are looked for beside the images, or where the last /images/ of the path reads /labels/."
    )


def test_val_without_any_label_gets_a_note(make: Make) -> None:
    facts = facts_of(make(labels={"train/a": BOX, "val/c": None}))
    assert facts.notes == ("val: no image has a label, so mAP stays 0 and the best checkpoint means nothing",)


def test_class_ids_out_of_range_name_file_line_and_count(make: Make) -> None:
    bad = "2 0.5 0.5 0.1 0.1"
    yaml = make(labels={"train/a": f"{BOX}\n{bad}\n", "train/b": f"{bad}\n{bad}\n{bad}\n", "val/c": BOX})
    a, b = yaml.parent / "labels/train/a.txt", yaml.parent / "labels/train/b.txt"
    assert only_fault(yaml) == (
        f"{a}:2: class 2 is outside 0 to 1 (4 such rows in 2 files); "
        f"also {b}:1: class 2 is outside 0 to 1; {b}:2: class 2 is outside 0 to 1. "
        f"{yaml} names 2 classes, counted from 0: relabel, or add the names."
    )


def test_facts_are_given_beside_bad_labels(make: Make) -> None:
    facts, faults = yolo_data.inspect(str(make(labels={"train/a": BOX, "train/b": "5 .5 .5 .1 .1", "val/c": BOX})))
    assert len(faults) == 1
    assert facts is not None
    assert (facts.train_images, facts.bad_images) == (2, 1)


def test_single_cls_takes_any_class_id(make: Make) -> None:
    yaml = make(labels={"train/a": "7 .5 .5 .1 .1", "val/c": BOX})
    assert yolo_data.inspect(str(yaml), "detect", None, single_cls=True)[1] == []


@pytest.mark.parametrize(
    ("task", "row", "found"),
    [
        ("detect", "0 0.5 0.5 320 200", "coordinate 320 is above 1"),
        ("detect", "0 -0.2 0.5 0.1 0.1", "coordinate -0.2 is below 0"),
        ("detect", "0 0.5 0.5 -0.001 0.1", "coordinate -0.001 is below 0"),
        ("detect", "0 0.5 0.5 0.1", "4 columns where 5 belong"),
        ("detect", "0 0.5 0.5 0.1 0.1 0.9", "6 columns where 5 belong"),
        ("detect", "cat 0.5 0.5 0.1 0.1", "'cat' is not a number"),
        ("detect", "0 0,5 0,5 0,1 0,1", "'0,5' is not a number"),
        ("detect", "0 nan 0.5 0.1 0.1", "nan or inf is no number to train on"),
        ("detect", "0.5 0.5 0.5 0.1 0.1", "class 0.5 is not a whole number"),
        ("detect", "-1 0.5 0.5 0.1 0.1", "class -1 is outside 0 to 1"),
        ("segment", BOX, "5 columns where 7, 9, 11 ... belong"),
        ("segment", TRIANGLE + " 0.5", "8 columns where 7, 9, 11 ... belong"),
        ("segment", "0 0.1 0.1 90 0.1 0.5 0.9", "coordinate 89.9 is above 1"),
        ("obb", BOX, "5 columns where 9 belong"),
        ("pose", BOX, "5 columns where 11 belong"),
        ("pose", BOX + " 0.1 1.5 2 0.2 0.2 1", "coordinate 1.5 is above 1"),
    ],
)
def test_bad_rows_are_named_for_what_is_wrong(make: Make, task: str, row: str, found: str) -> None:
    extra = "kpt_shape: [2, 3]\n" if task == "pose" else ""
    good = {"detect": BOX, "segment": TRIANGLE, "obb": CORNERS, "pose": BOX + " 0.1 0.1 2 0.2 0.2 1"}[task]
    yaml = make(GOOD + extra, {"train/a": f"{good}\n\n{row}", "val/c": good})
    (fault,) = faults_of(yaml, task)
    assert (fault.where, fault.found) == (f"{yaml.parent}/labels/train/a.txt:3", found)


def test_boxes_and_polygons_in_one_file_are_refused(make: Make) -> None:
    yaml = make(labels={"train/a": f"{TRIANGLE}\n{BOX}", "val/c": BOX})
    assert only_fault(yaml) == (
        f"{yaml.parent}/labels/train/a.txt:2: 5 columns in a file of polygons. "
        "A file holds boxes (5 columns) or polygons (an odd number, 7 or more), not both."
    )


def test_every_kind_of_bad_row_is_a_fault_of_its_own(make: Make) -> None:
    rows = "9 0.5 0.5 0.1 0.1\n0 2 0.5 0.1 0.1\n0 0.5\nx 0.5 0.5 0.1 0.1\n"
    faults = faults_of(make(labels={"train/a": rows, "val/c": BOX}))
    assert [fault.found for fault in faults] == [
        "class 9 is outside 0 to 1",
        "coordinate 2 is above 1",
        "2 columns where 5 belong",
        "'x' is not a number",
    ]
    assert faults[2].cure == "A row for task=detect has 5 columns: class x y width height."


def test_a_label_file_that_is_no_text_is_refused(make: Make) -> None:
    yaml = make()
    (yaml.parent / "labels" / "train" / "a.txt").write_bytes(b"\xff\xfe\x00\x81")
    assert "a.txt:1: can't be read as text (UnicodeDecodeError)" in only_fault(yaml)


def test_more_images_than_can_be_checked_are_sampled_evenly(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yolo_labels, "MOST_CHECKED", 10)
    facts = facts_of(make(labels={f"train/{i:03}": BOX for i in range(40)} | {"val/c": BOX}))
    assert (facts.train_images, facts.labels) == (40, 11)
    assert facts.notes == ("train: an even sample of 10 of the 40 images was checked",)


def test_labels_lie_where_the_last_images_folder_reads_labels() -> None:
    assert yolo_labels.label_path("/images/x/images/train/a.b.jpg") == "/images/x/labels/train/a.b.txt"
    assert yolo_labels.label_path("/x/train/a.jpg") == "/x/train/a.txt"


def test_two_thousand_labels_are_checked_at_once(make: Make) -> None:
    rows = "\n".join(f"{i % 2} 0.5 0.{i + 10} 0.1 0.1" for i in range(10))
    yaml = make(labels={f"train/{i:05}": rows for i in range(2000)} | {"val/c": BOX})
    start = time.process_time()
    assert facts_of(yaml).labels == 20_001
    assert time.process_time() - start < 2.0  # about 0.15 s; 10,000 files take 0.5 s


def test_the_package_agrees_about_image_formats() -> None:
    root = yolo_models.package_root()
    assert root is not None
    text = (root / "data" / "utils.py").read_text(encoding="utf-8")
    listed = text.partition("IMG_FORMATS = {")[2].partition("}")[0]
    assert {word.strip().strip('"') for word in listed.split(",") if word.strip()} == yolo_data.FORMATS
