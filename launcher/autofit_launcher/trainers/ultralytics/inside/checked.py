"""Looks at a training's arguments, model and data set with Ultralytics' own checks, or fetches weights as it does; a process of its own.

``python -m autofit_launcher.trainers.ultralytics.inside.checked '{"data": "data.yaml", "model": "", "args": {}}'``: its last line is JSON,
faults and facts (null where the images can't be listed). Nothing of the person's is written, and nothing is downloaded. What is wrong with
single images and labels Ultralytics tells in the trial.
``... checked fetch FILE.pt [ALSO...]`` downloads. The absence of ``ALSO`` is no failure; an empty name is none.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ultralytics.cfg import get_cfg
from ultralytics.data import dataset, utils
from ultralytics.nn.tasks import yaml_model_load
from ultralytics.utils.checks import check_yolov5u_filename
from ultralytics.utils.downloads import GITHUB_ASSETS_NAMES, attempt_download_asset

from autofit_launcher.common import files
from autofit_launcher.errors import Fault


def values(args: Mapping[str, Any]) -> Iterator[Fault]:
    """Faults of arguments, each taken as a training takes it."""
    for key, value in args.items():
        try:
            get_cfg(overrides={key: value} if key != "save_dir" else {})  # which is said otherwise to versions that don't know it
        except Exception as error:
            found, _, cure = _words(error).partition(". ")
            yield Fault(key=f"trainer.args.{key}", found=found, cure=cure or "`yolo cfg` lists all.")


def of_model(name: str) -> Iterator[Fault]:
    """Finds whether Ultralytics knows a model that no file here is."""
    cure = "Name a .yaml model to train from scratch, or put the weights there."
    try:
        if name.endswith(".pt") and Path(check_yolov5u_filename(name)).name not in GITHUB_ASSETS_NAMES:
            yield Fault(key="ask.model", found=f"{name} isn't here, and Ultralytics has no weights of that name", cure=cure)
        elif not name.endswith(".pt"):
            yaml_model_load(name)
    except Exception as error:
        yield Fault(key="ask.model", found=f"{name}: {_words(error)}", cure=cure)


def data_set(name: str) -> dict[str, Any]:
    """Finds the images of a data set, as Ultralytics does. Raises what that raises."""
    path = Path(name)
    if "://" in name or (path.is_file() and path.suffix not in (".yaml", ".yml")):
        raise ValueError(f"{name} is no YAML file on this machine. Fetch and unpack it first, and name the data.yaml in it")
    if path.exists() and not path.is_dir():
        files.read(path)  # a plain file, or nothing
    described = utils.check_det_dataset(str(path.absolute()) if path.exists() else name, autodownload=False)
    listing = SimpleNamespace(prefix="", fraction=1.0)
    images = {split: dataset.YOLODataset.get_img_files(listing, described[split]) for split in ("train", "val")}
    return {"yaml": str(described["yaml_file"]), **images}


def _words(error: BaseException) -> str:
    return " ".join(str(error.__cause__ or error).replace("❌", "").split()).rstrip(".") or type(error).__name__


def check(data: str, model: str, args: Mapping[str, Any]) -> tuple[list[Fault], dict[str, Any] | None]:
    """Finds (every fault of arguments, model and data set; the data set's YAML and images, or None). ``model``: one that isn't here, or
    empty."""
    faults = [*values(args), *(of_model(model) if model else ())]
    try:
        return faults, data_set(data)
    except Exception as error:
        return [*faults, Fault(where=data, key="data", found=_words(error), cure="`yolo detect train` has to find it, too.")], None


def fetch(model: str, *also: str) -> int:
    """Exit status 0 where the weights lie on this machine afterwards."""
    for one in also:
        with contextlib.suppress(Exception):
            attempt_download_asset(one)
    return 0 if not model or Path(attempt_download_asset(model)).exists() else 1


if __name__ == "__main__":
    if sys.argv[1] == "fetch":
        sys.exit(fetch(*sys.argv[2:]))
    utils.check_font = lambda *_, **__: None  # it would be fetched
    found, held = check(**json.loads(sys.argv[1]))
    print(f"\n{json.dumps({'faults': [asdict(fault) for fault in found], 'facts': held})}")
