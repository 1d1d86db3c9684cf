"""A training's data set and arguments, looked at by Ultralytics itself before anything is launched (``inside.checked``)."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autofit_launcher.common import interpreter
from autofit_launcher.errors import Fault
from autofit_launcher.machine import process
from autofit_launcher.trainers.ultralytics import environment

LONGEST_S = 120.0
_INSIDE = "autofit_launcher.trainers.ultralytics.inside.checked"


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetFacts:
    """The images of a data set, and what is unusual in it."""

    yaml_path: Path
    train: tuple[str, ...] = field(repr=False)
    """Image files."""
    val: tuple[str, ...] = field(repr=False)
    notes: tuple[str, ...]
    """Sentences on what was sampled, or is allowed but unusual."""


def inspect(data: str, task: str, args: Mapping[str, Any] | None = None) -> tuple[DatasetFacts | None, list[Fault]]:
    """Finds what ``data`` holds, and everything wrong with it or with ``args``; facts are None where its images can't be listed.

    ``data``: a YAML file, a folder with one, or the name of a data set that Ultralytics ships (coco8.yaml).
    """
    said = json.dumps({"data": data.strip(), "task": task, "args": dict(args or {})})
    with tempfile.TemporaryDirectory(prefix="autofit-look-") as place:
        env = {**environment.prepare(Path(place)), "TMPDIR": place}
        status, output = process.output_of(process.python_module(_INSIDE, said, python=interpreter.persons()), env=env, timeout_s=LONGEST_S)
    if status:
        why = f"took longer than {LONGEST_S:g} s" if status == 124 else f"failed: {output.strip()[-500:]}"
        return None, [Fault(key="data", found=f"looking at {data} {why}", cure="Is its disk at hand, and does `yolo checks` run?")]
    found = json.loads(output.splitlines()[-1])
    facts = found["facts"] and DatasetFacts(
        yaml_path=Path(found["facts"]["yaml"]), **{key: tuple(found["facts"][key]) for key in ("train", "val", "notes")}
    )
    return facts, [Fault(**fault) for fault in found["faults"]]


def label_path(image: str) -> str:
    """Names the file in which Ultralytics looks for an image's labels: the last /images/ becomes /labels/, the suffix .txt."""
    return f"{os.sep}labels{os.sep}".join(image.rsplit(f"{os.sep}images{os.sep}", 1)).rsplit(".", 1)[0] + ".txt"
