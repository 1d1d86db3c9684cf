"""Checks a YOLO dataset before anything is launched; returns facts about it and every fault.

Reads what Ultralytics 8.4 would read, by its rules (``data/utils.py: check_det_dataset``, ``data/base.py:
get_img_files``), without importing it, without a network, and writes nothing, not even a label cache.

Ultralytics itself drops an image with a bad label file and trains on without it; autofit reports these as faults.
``inspect`` returns facts beside such faults, so that a caller may choose otherwise.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from launcher.errors import Fault
from launcher.trainers.ultralytics import labels as yolo_labels
from launcher.trainers.ultralytics import models as yolo_models
from launcher.trainers.ultralytics.labels import BadRow, Found, Rules

TASKS = ("detect", "segment", "pose", "obb")
SHOWN = 3
"""Examples given with each kind of bad label."""
FORMATS = frozenset({"avif", "bmp", "dng", "heic", "heif", "jp2", "jpeg", "jpg", "mpo", "png", "tif", "tiff", "webp"})
"""Ultralytics' IMG_FORMATS."""

_KEY_TYPES: dict[str, tuple[type, ...]] = {
    "path": (str,), "train": (str, list), "val": (str, list), "test": (str, list), "names": (list, dict), "kpt_shape": (list,),
    "flip_idx": (list,),
}  # fmt: skip
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNREADABLE = re.compile("[^\x09\x0a\x0d\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetFacts:
    """What a dataset holds, as far as memory and the ladder care."""

    train_images: int
    val_images: int
    most_labels: int
    """Objects in the densest image, training or validation (duplicates of a row count once)."""
    names: tuple[str, ...]
    """Class names by id."""
    root: Path
    """What relative ``train`` and ``val`` paths are relative to."""
    yaml_path: Path
    channels: int
    """Image channels as the YAML says; 3 by default."""
    labels: int
    """Objects in all checked images."""
    bad_images: int
    """Checked images that Ultralytics would leave out (empty file, bad labels)."""
    notes: tuple[str, ...]
    """What was sampled, or is allowed but unusual."""
    files: tuple[str, ...] = field(default=(), repr=False)
    """Every image file, training and validation."""


def inspect(
    data: str, task: str = "detect", datasets_dir: Path | None = None, *, single_cls: bool = False
) -> tuple[DatasetFacts | None, list[Fault]]:
    """Everything wrong with the dataset ``data``, and what it holds; facts are None where its images can't be listed.

    ``data``: a YAML file, a folder with one, or the name of a dataset that Ultralytics ships (coco8.yaml).
    ``datasets_dir``: None reads the user's Ultralytics settings. ``single_cls``: every class id counts as 0.
    """
    if task not in TASKS:
        cure = f"Choose one of {', '.join(TASKS)}."
        return None, [Fault(key="task", found=f"{task!r} is not a task whose data autofit can check", cure=cure)]
    file, fault = _find_yaml(data)
    if file is None:
        return None, [fault] if fault else []
    text, fault = _load(file)
    if text is None:
        return None, [fault] if fault else []
    described = _describe(text, file, task, datasets_dir or yolo_models.datasets_dir())
    faults = described.faults
    train, val = (_list_images(described, split) for split in ("train", "val"))
    if not train or not val:
        return None, faults
    rules = Rules(task=task, classes=len(described.names), kpt_shape=described.kpt_shape, single_cls=single_cls)
    found = {split: yolo_labels.check(images, rules) for split, images in (("train", train), ("val", val))}
    faults += _image_faults(found.values()) + _row_faults(found.values(), rules, described)
    faults += _unlabelled(train, found["train"], described)
    return DatasetFacts(
        train_images=len(train),
        val_images=len(val),
        most_labels=max(part.most for part in found.values()),
        names=described.names,
        root=described.root,
        yaml_path=file,
        channels=described.channels,
        labels=sum(part.rows for part in found.values()),
        bad_images=sum(len(part.bad_images) + part.bad_labels for part in found.values()),
        notes=(*_notes("train", len(train), found["train"]), *_notes("val", len(val), found["val"])),
        files=(*train, *val),
    ), faults


# ---- the YAML file


def _find_yaml(data: str) -> tuple[Path | None, Fault | None]:
    """As ``check_file`` and ``find_dataset_yaml``, without downloading or unpacking."""
    name = data.strip()
    if "://" in name or name.endswith(".ndjson"):
        cure = "Fetch it first, and name its data.yaml here: autofit launches nothing whose data isn't on this machine."
        return None, Fault(key="data", found=f"{name!r} is not a dataset on this machine", cure=cure)
    path = Path(name)
    if path.is_dir():
        return _yaml_of_folder(path)
    if path.is_file():
        if path.suffix.lower() in {".yaml", ".yml"}:
            return path, None
        packed = path.suffix.lower() in {".zip", ".tar", ".gz", ".tgz", ".xz", ".bz2"}
        cure = "Unpack it and name the data.yaml in it." if packed else "Name the data.yaml that describes the dataset."
        return None, Fault(key="data", found=f"{name} is not a YAML file", cure=cure)
    for candidate in (name,) if path.suffix in {".yaml", ".yml"} else (f"{name}.yaml", f"{name}.yml"):
        if Path(candidate).is_file():
            return Path(candidate), None
        if shipped := yolo_models.package_yaml(candidate):
            return shipped, None
    near = _near(path)
    cure = f"Did you mean {near[0]}?" if near else f"Looked in {Path.cwd()} and among the datasets Ultralytics ships."
    others = f" Also near: {', '.join(near[1:])}." if len(near) > 1 else ""
    return None, Fault(key="data", found=f"{name} doesn't exist", cure=cure + others)


MOST_FOLDERS = 3000
"""Folders that are looked into for a data.yaml where a folder is named, however much lies below it (``data=/``)."""


def _yaml_of_folder(folder: Path) -> tuple[Path | None, Fault | None]:
    files: list[Path] = []
    below = _yamls_below(folder, MOST_FOLDERS)
    for pattern in ("*.yaml", "*.yml"):
        files = files or sorted(folder.glob(pattern)) or [file for file in below if file.match(pattern)]
    if len(files) > 1:
        files = [file for file in files if file.stem == folder.name] or files
    if len(files) == 1:
        return files[0], None
    if not files:
        return None, Fault(key="data", found=f"{folder} holds no YAML file", cure="Name the data.yaml of the dataset.")
    shown = ", ".join(str(file) for file in files[:4])
    return None, Fault(key="data", found=f"{folder} holds {len(files)} YAML files", cure=f"Name one of them: {shown}.")


def _near(path: Path) -> list[str]:
    """YAML files that the user may have meant, likeliest first, at most four."""
    folder = path.parent
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    here = _yamls_below(folder)
    names = [str(file) for file in here]
    if len(path.parts) == 1:
        names += [file.name for file in yolo_models.package_datasets()]
    same = [name for name in names if Path(name).name == path.name or Path(name).stem == path.name]
    close = difflib.get_close_matches(str(path), names, n=4, cutoff=0.6)
    beside = [str(file) for file in here if file.parent == path.parent]
    return list(dict.fromkeys(same + close + beside))[:4]


def _yamls_below(folder: Path, most_folders: int = 300) -> list[Path]:
    """YAML files in and below ``folder``, nearest first, giving up after ``most_folders`` folders."""
    files: list[Path] = []
    waiting = [folder]
    for number in range(most_folders):
        if number >= len(waiting):
            break
        with suppress(OSError):
            for entry in sorted(os.scandir(waiting[number]), key=lambda entry: entry.name):
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(waiting[number] / entry.name)
                elif entry.name.endswith((".yaml", ".yml")):
                    files.append(waiting[number] / entry.name)
    return files


def _load(file: Path) -> tuple[dict[Any, Any] | None, Fault | None]:
    """As ``YAML.load``: bytes that aren't UTF-8 are dropped, odd characters are dropped on a second try."""
    try:
        text = file.read_text(encoding="utf-8", errors="ignore")
    except OSError as error:
        reason = error.strerror or str(error)
        return None, Fault(where=str(file), key="", found=f"can't be read ({reason})", cure="Check its permissions.")
    try:
        try:
            content = yaml.load(text, Loader=_Loader)
        except yaml.YAMLError:
            content = yaml.load(_UNREADABLE.sub("", text), Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        cure = "Indent with blanks, put a blank after each colon, and quote values with special characters."
        return None, Fault(where=f"{file}{at}", key="", found=f"is not valid YAML: {problem}", cure=cure)
    if content is None:
        content = {}
    if not isinstance(content, dict):
        found = f"holds a {type(content).__name__}, not keys with values"
        return None, Fault(where=str(file), key="", found=found, cure="Write train:, val: and names: lines.")
    return {key: None if value == "None" else value for key, value in content.items()}, None


@dataclass(kw_only=True, slots=True)
class _Described:
    """What the YAML says, resolved, with the faults found so far."""

    file: Path
    root: Path
    names: tuple[str, ...] = ()
    kpt_shape: tuple[int, int] = (0, 0)
    channels: int = 3
    places: dict[str, list[Path]] = field(default_factory=dict)
    download: bool = False
    datasets_dir: Path
    faults: list[Fault] = field(default_factory=list)

    def fault(self, key: str, found: str, cure: str) -> None:
        self.faults.append(Fault(where=str(self.file), key=key, found=found, cure=cure))


def _describe(content: dict[Any, Any], file: Path, task: str, datasets_dir: Path) -> _Described:
    content = dict(content)
    described = _Described(file=file, root=Path(), datasets_dir=datasets_dir, download=bool(content.get("download")))
    for key, types in _KEY_TYPES.items():
        value = content.get(key)
        if value is not None and not isinstance(value, types):
            wanted = " or ".join(kind.__name__ for kind in types)
            described.fault(key, f"is {value!r}, a {type(value).__name__}", f"It must be a {wanted}.")
            content[key] = None
    if "val" not in content and "validation" in content:  # the one alias that Ultralytics knows
        content["val"] = content.pop("validation")
    for key in ("train", "val"):
        if not content.get(key) and not any(fault.key == key for fault in described.faults):
            close = difflib.get_close_matches(key, [str(k) for k in content], n=1, cutoff=0.5)
            hint = f" Did you mean {key} where {close[0]} stands?" if close and close[0] not in _KEY_TYPES else ""
            what = "is empty" if key in content else "is missing"
            described.fault(key, what, f"Name the folder of its images, relative to path.{hint}")
    described.names = _names(content, described)
    described.kpt_shape = _kpt_shape(content, described, task)
    channels = content.get("channels", 3)
    if isinstance(channels, int) and not isinstance(channels, bool) and channels > 0:
        described.channels = channels
    else:
        described.fault("channels", f"is {channels!r}", "It must be a number of image channels, 1 or 3 mostly.")
    root = Path(content.get("path") or file.parent)
    if not root.exists() and not root.is_absolute():
        root = (datasets_dir / root).resolve()
    described.root = root
    for key in ("train", "val"):
        if content.get(key):
            described.places[key] = _resolved(content[key], root)
    return described


def _resolved(value: str | list[Any], root: Path) -> list[Path]:
    """As check_det_dataset: a leading ../ of a single path is dropped where it leads nowhere (Roboflow's exports)."""
    if isinstance(value, list):
        return [(root / str(item)).resolve() for item in value]
    place = (root / value).resolve()
    if not place.exists() and value.startswith("../"):
        place = (root / value[3:]).resolve()
    return [place]


def _names(content: dict[Any, Any], described: _Described) -> tuple[str, ...]:
    """Class names by id; () with a fault where they don't say how many classes there are."""
    names, count = content.get("names"), content.get("nc")
    if "nc" in content:
        try:
            if isinstance(count, bool) or float(count) != int(float(count)):  # type: ignore[arg-type]
                raise ValueError
            count = int(float(count))  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            described.fault("nc", f"is {count!r}", "It must be the number of classes; or leave it out beside names.")
            count = None
    if names is None:
        if any(fault.key in {"names", "nc"} for fault in described.faults):
            return ()
        if count is None:
            described.fault("names", "is missing, and nc too", "List the class names by id: names: {0: cat, 1: dog}.")
            return ()
        if count < 1:
            described.fault("nc", f"is {count}", "At least one class is needed.")
        return tuple(f"class_{number}" for number in range(count))
    if isinstance(names, list):
        names = dict(enumerate(names))
    try:
        by_id = {int(key): str(value) for key, value in names.items()}
    except (TypeError, ValueError):
        wrong = next((key for key in names if not str(key).strip().isdecimal()), names)
        described.fault("names", f"has {wrong!r} where a class id belongs", "Write the id first: names: {0: cat}.")
        return ()
    if not by_id:
        described.fault("names", "is empty", "At least one class is needed.")
        return ()
    if sorted(by_id) != list(range(len(by_id))):
        missing = [number for number in range(len(by_id)) if number not in by_id]
        found = f"has {len(by_id)} classes with ids {min(by_id)} to {max(by_id)}"
        described.fault("names", found, f"Ids must run from 0 to {len(by_id) - 1}; {missing[0]} is missing.")
        return ()
    if count is not None and count != len(by_id):
        cure = f"Leave nc out, or set it to {len(by_id)}."
        described.fault("nc", f"is {count}, but names has {len(by_id)} entries", cure)
    return tuple(by_id[number] for number in range(len(by_id)))


def _kpt_shape(content: dict[Any, Any], described: _Described, task: str) -> tuple[int, int]:
    shape = content.get("kpt_shape")
    if isinstance(shape, list) and len(shape) == 2 and all(isinstance(number, int) for number in shape):
        points, numbers = shape
        if points > 0 and numbers in (2, 3):
            return points, numbers
    if task == "pose" and not any(fault.key == "kpt_shape" for fault in described.faults):
        found = "is missing" if shape is None else f"is {shape!r}"
        cure = "Write [keypoints, 2] for x y or [keypoints, 3] for x y visible, such as kpt_shape: [17, 3]."
        described.fault("kpt_shape", found, cure)
    return 0, 0


# ---- the images


def _list_images(described: _Described, split: str) -> list[str]:
    """Image files of a split, sorted as Ultralytics does; [] with faults where there are none."""
    places = described.places.get(split, [])
    missing = [place for place in places if not place.exists()]
    if missing and described.download:
        name = described.file.name
        shipped = yolo_models.package_yaml(name) is not None
        what = name if shipped else str(described.file)
        described.fault(
            split,
            f"{missing[0]} isn't there: this dataset is a download that was never fetched",
            "Fetch it first, which the yolo command does at its start: "
            f"yolo detect train data={what} model=yolo11n.yaml epochs=1 imgsz=32. It goes to {described.datasets_dir}.",
        )
        return []
    for place in missing:
        described.fault(split, f"{place} doesn't exist", _where_else(place, described))
    images: list[str] = []
    for place in places:
        if place.is_dir():
            before = len(images)
            images += _walk(str(place))
            if len(images) == before:
                formats = ", ".join(sorted(FORMATS))
                described.fault(split, f"{place} holds no images", f"Known formats are {formats}.")
        elif place.is_file():
            images += _from_list(place, split, described)
    return sorted(images)


def _where_else(place: Path, described: _Described) -> str:
    """Where the missing path may be instead: the first folder of it that exists, and what lies there."""
    above = place.parent
    while not above.is_dir() and above != above.parent:
        above = above.parent
    there = sorted(entry.name for entry in os.scandir(above) if not entry.name.startswith("."))
    part = place.relative_to(above).parts[0]
    close = difflib.get_close_matches(part, there, n=1, cutoff=0.5)
    hint = f" Did you mean {above / close[0]}?" if close else f" {above} holds {', '.join(there[:6]) or 'nothing'}."
    return f"Paths are relative to path, which is {described.root} here.{hint}"


def _walk(folder: str) -> list[str]:
    """Every image below ``folder``, as glob's ** finds them: links are followed, hidden names are not."""
    images: list[str] = []
    waiting, seen = [folder], set[tuple[int, int]]()
    while waiting:
        current = waiting.pop()
        try:
            entries = list(os.scandir(current))
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                if entry.is_symlink():  # each target once, or a link to a folder above never ends
                    status = entry.stat()
                    if (status.st_dev, status.st_ino) in seen:
                        continue
                    seen.add((status.st_dev, status.st_ino))
                waiting.append(entry.path)
            elif entry.name.rpartition(".")[2].lower() in FORMATS:
                images.append(entry.path)
    return images


def _from_list(file: Path, split: str, described: _Described) -> list[str]:
    """Images named by a text file, one a line; ./ means beside that file, other relative paths are relative to here."""
    try:
        lines = file.read_text(encoding="utf-8-sig").strip().splitlines()
    except (OSError, UnicodeDecodeError):
        found = f"{file} is neither a folder of images nor a text file of image paths"
        described.fault(split, found, "Name the folder that holds the images.")
        return []
    beside = f"{file.parent}{os.sep}"
    images, absent = [], []
    for number, line in enumerate(lines, 1):
        path = line.replace("./", beside, 1) if line.startswith("./") else line
        if path.rpartition(".")[2].lower() not in FORMATS:
            continue
        if os.path.exists(path):
            images.append(path)
        else:
            absent.append(f"{file}:{number}: {line}")
    if absent:
        found = f"{len(absent)} of {len(absent) + len(images)} listed images don't exist: {'; '.join(absent[:SHOWN])}"
        cure = f"Paths in a list are absolute, start with ./ (beside the list), or are relative to {Path.cwd()}."
        described.fault(split, found, cure)
    elif not images:
        described.fault(split, f"{file} lists no images", "Write one image path on each line.")
    return images


# ---- what the labels are blamed for


def _image_faults(parts: Iterable[Found]) -> list[Fault]:
    bad = [image for part in parts for image in part.bad_images]
    if not bad:
        return []
    found = f"{_count(len(bad), 'image file')} of 0 bytes or linked to nowhere: {', '.join(bad[:SHOWN])}"
    return [Fault(key="data", found=found, cure="Copy them again, or delete them with their label files.")]


def _row_faults(parts: Iterable[Found], rules: Rules, described: _Described) -> list[Fault]:
    """One fault for each kind of bad row, placed at the first."""
    kinds: dict[str, list[BadRow]] = {}
    for part in parts:
        for row in part.bad_rows:
            kinds.setdefault(row.kind, []).append(row)
    faults = []
    for kind, rows in kinds.items():
        files = len({row.path for row in rows})
        total = f" ({len(rows)} such rows in {_count(files, 'file')})" if len(rows) > 1 else ""
        more = f"; also {'; '.join(str(row) for row in rows[1:SHOWN])}" if len(rows) > 1 else ""
        where = f"{rows[0].path}:{rows[0].line}"
        found = f"{rows[0].found}{total}{more}"
        faults.append(Fault(where=where, key="", found=found, cure=_cure(kind, rules, described)))
    return faults


def _cure(kind: str, rules: Rules, described: _Described) -> str:
    if kind == "class":
        return f"{described.file} names {_count(rules.classes, 'class')}, counted from 0: relabel, or add the names."
    if kind == "columns":
        return rules.row_format
    if kind == "coordinate":
        return "Coordinates are fractions of the image's width and height, from 0 to 1, not pixels."
    if kind == "mixed":
        return "A file holds boxes (5 columns) or polygons (an odd number, 7 or more), not both."
    return "A row holds numbers separated by blanks: the class id, then coordinates."


def _unlabelled(images: Sequence[str], found: Found, described: _Described) -> list[Fault]:
    """Backgrounds are fine, but not nothing else."""
    if found.rows or found.bad_rows:
        return []
    example = yolo_labels.label_path(images[0])
    state = "is empty" if os.path.exists(example) else "doesn't exist"
    text = f"none of the {_count(len(images), 'training image')} has a label: {example} {state}, for one"
    cure = "Labels are looked for beside the images, or where the last /images/ of the path reads /labels/."
    return [Fault(where=str(described.file), key="train", found=text, cure=cure)]


def _notes(split: str, images: int, found: Found) -> list[str]:
    notes = []
    if found.images < images:
        notes.append(f"{split}: an even sample of {found.images} of the {images} images was checked")
    backgrounds = found.images - found.labelled - found.bad_labels - len(found.bad_images)
    if backgrounds > 0 and found.rows:
        notes.append(f"{split}: {backgrounds} of {found.images} images have no labels and count as backgrounds")
    if found.as_boxes:
        notes.append(f"{split}: {found.as_boxes} rows are polygons; Ultralytics trains on their boxes")
    if found.odd_corners:
        notes.append(f"{split}: {found.odd_corners} rows haven't four corners; Ultralytics fits a box to each")
    if split == "val" and not found.rows:
        notes.append("val: no image has a label, so mAP stays 0 and the best checkpoint means nothing")
    return notes


def _count(number: int, noun: str) -> str:
    plural = {"class": "classes"}.get(noun, f"{noun}s")
    return f"{number} {noun if number == 1 else plural}"
