"""Looks at a training's arguments and data set with Ultralytics' own checks, in a process of its own.

``python -m autofit_launcher.trainers.ultralytics.inside.checked '{"data": "data.yaml", "task": "detect", "args": {}}'``: its last line is
JSON, faults and facts (null where the images can't be listed). Nothing of the person's is written, not even a label cache, and nothing is
downloaded. Files are opened in a sample, so that 100,000 images take seconds, too.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import yaml
from PIL import Image
from ultralytics.cfg import get_cfg
from ultralytics.data import dataset, utils
from ultralytics.utils import ROOT
from ultralytics.utils.checks import check_file

from autofit_launcher.common import files
from autofit_launcher.errors import BadInput, Fault, did_you_mean

MOST, LONGEST_S, AT_ONCE = 4000, 8.0, 500
"""Images of a split that are opened with their labels; how long; how many between two looks at the clock."""
SHOWN = 3
_CORRUPT = ": ignoring corrupt image/label: "
_WOULD_WRITE = "it would be written anew"
ROWS = {
    "detect": "A row has 5 columns: class x y width height",
    "segment": "A row is class x1 y1 x2 y2 x3 y3 ...",
    "pose": "A row is class x y width height and the keypoints of kpt_shape",
    "obb": "A row has 9 columns: class x1 y1 x2 y2 x3 y3 x4 y4",
}


def values(args: Mapping[str, Any]) -> Iterator[Fault]:
    """Faults of arguments, each taken as a training takes it."""
    for key, value in args.items():
        try:
            get_cfg(overrides={key: value} if key != "save_dir" else {})  # which is said otherwise to versions that don't know it
        except Exception as error:
            found, _, cure = _words(error).partition(". ")
            yield Fault(key=f"trainer.args.{key}", found=found, cure=cure or "`yolo cfg` lists all.")


def data_set(name: str, task: str, *, single_cls: bool) -> dict[str, Any]:
    """Finds what a data set holds, and its faults. Raises BadInput where its images can't be listed."""
    file = _file_of(name)
    content = _content(file)
    described, faults = {}, []
    for split in ("train", "val"):
        try:
            described[split] = _described(file, content, split)
        except Exception as error:
            faults.append(_of_split(file, content, split, error))
    if faults:
        raise BadInput(faults[:1] if faults[0].key != "train" else faults)
    found: dict[str, Any] = {"yaml": str(file), "notes": [], "faults": []}
    for split, (said, images) in described.items():
        try:
            faults, notes = _scanned(split, images, {**said, "yaml": str(file), "task": task, "single_cls": single_cls})
        except ValueError as error:  # kpt_shape
            faults, notes = [_of_split(file, content, split, error)], []
        found |= {split: images, "faults": found["faults"] + faults, "notes": found["notes"] + notes}
    return found


def _file_of(name: str) -> Path:
    path = Path(name)
    if "://" in name or path.is_dir() or (path.suffix not in ("", ".yaml", ".yml") and path.is_file()):
        _refuse(f"{name} is no YAML file on this machine", "Fetch and unpack it first, and name the data.yaml in it.")
    for one in (name,) if path.suffix else (f"{name}.yaml", f"{name}.yml"):
        if found := check_file(one, download=False, hard=False):
            return Path(found)
    here = [str(one) for place in list(path.parents)[:2] for pattern in ("*.yaml", "*/*.yaml") for one in place.glob(pattern)]
    shipped = [one.name for one in (ROOT / "cfg" / "datasets").glob("*.yaml")]
    looked = f"Looked in {Path.cwd()}; what a script writes by itself has to be there before."
    return _refuse(f"{name} doesn't exist", f"{did_you_mean(name, [*here, *shipped])}{looked}")


def _content(file: Path) -> dict[str, Any]:
    """Reads the YAML. Raises BadInput where it can't be read, or names no images."""
    try:
        content = yaml.safe_load(files.read(file).decode(errors="ignore"))  # a plain file, or nothing
    except (OSError, yaml.YAMLError) as error:
        raise BadInput([Fault(where=str(file), key="", found=f"can't be read: {_words(error)}", cure="Correct it.")]) from error
    content = content if isinstance(content, dict) else {}
    if "validation" in content:
        content.setdefault("val", content.pop("validation"))
    if missing := [split for split in ("train", "val") if not content.get(split)]:
        others = f"It has {', '.join(map(str, content)) or 'no keys'}. Name the folder of its images, relative to path."
        raise BadInput([Fault(where=str(file), key=split, found="is missing", cure=others) for split in missing])
    return content


def _described(file: Path, content: Mapping[str, Any], split: str) -> tuple[dict[str, Any], list[str]]:
    """Reads (the data set as Ultralytics takes it, image files of a split), with the split as ``val``: its own check looks at that only."""
    kept = {key: value for key, value in content.items() if key not in ("test", "minival", "download")}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "data.yaml"
        said = {**kept, "path": str(content.get("path") or file.absolute().parent), "train": content[split], "val": content[split]}
        copy.write_text(yaml.safe_dump(said), encoding="utf-8")
        described = utils.check_det_dataset(str(copy), autodownload=False)
    return described, dataset.YOLODataset.get_img_files(SimpleNamespace(prefix="", fraction=1.0), described["val"])


def _of_split(file: Path, content: Mapping[str, Any], split: str, error: Exception) -> Fault:
    missing, key = re.search(r"missing path '(.*)'", str(error)), split if isinstance(error, FileNotFoundError) else ""
    if missing is None:
        return Fault(where=str(file), key=key, found=re.sub(r"^/\S+ ", "", _words(error.__cause__ or error)), cure="Correct it.")
    cure = f"Paths are relative to path, which is {content.get('path') or file.parent} here."
    if content.get("download"):
        cure = f"It was never downloaded: `yolo detect train data={file.name} model=yolo11n.yaml epochs=1 imgsz=32` does."
    return Fault(where=str(file), key=split, found=f"{missing[1]} doesn't exist", cure=cure)


def _scanned(split: str, images: Sequence[str], described: Mapping[str, Any]) -> tuple[list[Fault], list[str]]:
    """Finds (faults, notes) of a sample of images and their labels."""
    sample, until = random.Random(0).sample(images, min(len(images), MOST)), time.monotonic() + LONGEST_S
    counts, kinds = [0] * 5, dict[str, list[tuple[str, str]]]()
    for at in range(0, len(sample), AT_ONCE):
        if at and time.monotonic() > until:
            break
        found = _verified(sample[at : at + AT_ONCE], described)
        counts = [one + other for one, other in zip(counts, found["results"], strict=True)]
        for image, wrong, why in (one.partition(_CORRUPT) for one in found["msgs"]):
            if wrong and _WOULD_WRITE not in why:
                kinds.setdefault(re.sub(r"'[^']*'|[^a-zA-Z ]+", "", why), []).append((image, " ".join(why.split())))
        for one in found["labels"] if described["task"] in ("segment", "obb") else ():
            if len(one["cls"]) and not one["segments"]:
                kinds.setdefault("boxes", []).append((one["im_file"], "its labels are boxes"))
    labelled, missing, empty, _, looked = counts
    of = f"of {looked}" if looked == len(images) else f"of a sample of {looked} of {len(images)}"
    cure = f"They aren't trained on: correct image and label file, or delete both. {ROWS[described['task']]}, in fractions of the image."
    faults = []
    for ones in kinds.values():
        shown = "; ".join(f"{image}: {why}" for image, why in ones[:SHOWN])
        faults.append(Fault(key="data", found=f"{len(ones)} {of} {split} images: {shown}", cure=cure))
    if labelled == empty and split == "train" and not faults:
        none, example = f"none {of} training images has a label", utils.img2label_paths(sample[:1])[0]
        faults.append(Fault(where=described["yaml"], key=split, found=none, cure=f"Labels are looked for where {example} would lie."))
    elif labelled == empty and not faults:
        return faults, [f"{split}: no image has a label, so mAP stays 0 and the best checkpoint means nothing"]
    backgrounds = missing + empty
    notes = [f"{split}: {backgrounds} {of} images have no labels and count as backgrounds"] if backgrounds else []
    return faults, notes + ([f"{split}: {of[3:]} images was checked"] if looked < len(images) else [])


def _verified(images: Sequence[str], described: Mapping[str, Any]) -> dict[str, Any]:
    """Runs Ultralytics' own scan of images and labels."""
    whole = dataset.YOLODataset.__new__(dataset.YOLODataset)
    whole.data, whole.single_cls, whole.use_keypoints = described, described["single_cls"], described["task"] == "pose"
    whole.prefix, whole.augment, whole.use_segments, whole.use_obb = "", False, False, False
    whole.im_files, whole.label_files = images, utils.img2label_paths(images)
    found: dict[str, Any] = whole.cache_labels(Path("labels"))
    return found


def _refuse(found: str, cure: str) -> NoReturn:
    raise BadInput([Fault(key="data", found=found, cure=cure)])


def _words(error: BaseException) -> str:
    return " ".join(str(error).replace("❌", "").split()).rstrip(".") or type(error).__name__


def check(data: str, task: str, args: Mapping[str, Any]) -> tuple[list[Fault], dict[str, Any] | None]:
    """Finds (every fault of the arguments and the data set, what the data set holds, or None)."""
    faults = list(values(args))
    try:
        facts = data_set(data, task, single_cls=bool(args.get("single_cls")))
    except BadInput as refused:
        return [*faults, *refused.faults], None
    except OSError as error:
        found = f"it may not be looked at: {error.strerror}"
        return [*faults, Fault(where=str(error.filename), key="", found=found, cure="Let this user read it and enter its folders.")], None
    return [*faults, *facts.pop("faults")], facts


def write_nothing() -> None:
    """Keeps this process from writing: neither label caches nor fonts, and a JPEG that doesn't end as one isn't written anew."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise OSError(_WOULD_WRITE)

    dataset.save_dataset_cache_file = lambda *_, **__: None
    utils.check_font = lambda *_, **__: None
    Image.Image.save = refuse  # type: ignore[method-assign]


if __name__ == "__main__":
    write_nothing()
    found, held = check(**json.loads(sys.argv[1]))
    print(f"\n{json.dumps({'faults': [asdict(fault) for fault in found], 'facts': held})}")
