"""Says how a rung of a YOLO training can be traced without memory. ``inside.trace`` runs the trace."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.adapter.tracing import CpuRest, Tracing, Untraceable
from launcher.ladder.rungs import CHECKPOINTING, Rung
from launcher.machine import install
from launcher.shared.report import Phase
from launcher.shared.sizes import MIB
from launcher.trainers.ultralytics import environment
from launcher.trainers.ultralytics import models as yolo_models

STRIDE = 32
WANTED = {"images": 16, "side": 20, "val_images": 32, "val_side": 21}
"""Sizes near which every trace is made, whatever is asked, so that one trace serves all recipes."""
CLASSES, LABELS = 80, 20
"""Where there is no data: COCO's classes; of its images 98 % hold at most so many objects, and mosaic puts four together."""
MOSAIC = 4
"""Images whose objects come together in one."""
DETERMINISTIC_BYTES = 32 * MIB
"""Ultralytics sets CUBLAS_WORKSPACE_CONFIG=:4096:8 where ``deterministic`` is on (``init_seeds``), which is its default."""
RESTS: Mapping[str, CpuRest] = {
    Phase.TRAIN: CpuRest(constant_bytes=78 * MIB, share=0.04),
    Phase.VALIDATE: CpuRest(constant_bytes=78 * MIB),
}
LEFT_OUT = (
    "label density beyond what is assumed",
    "images cached in memory, loader workers (host memory)",
    "figures and the metrics' own arrays",
    "the last epochs' checkpoint loaded beside the training model",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Traced:
    """What decides the trace of a rung, in addition to the rung itself."""

    task: str
    model: str
    classes: int | None
    """None where there is no data."""
    channels: int
    labels: int | None
    """Most objects in one image; None if there is no data."""
    val_batch: int | None
    args: Callable[[str], Any]
    """Ultralytics' own, with its defaults."""


def of(rung: Rung, said: Traced, *, cuda: bool) -> Tracing:
    """How to trace the rung. Raises Untraceable."""
    args = said.args
    if importlib.util.find_spec("ultralytics") is None:
        raise Untraceable(
            f"the package ultralytics isn't installed here, and its own model is what is traced: {install.extra('ultralytics')}"
        )
    if said.task != "detect":
        raise Untraceable(
            f"only detection is traced; what a loss of task {said.task!r} keeps for each image of a batch isn't known without data"
        )
    drawn = _drawn(rung)
    payload = {
        "model": _traced_as(said.model),
        "age": _age(said.model),
        "classes": said.classes or CLASSES,
        "channels": said.channels,
        "labels": (said.labels or LABELS) * (MOSAIC if args("mosaic") else 1),
        "optimizer": "AdamW" if args("optimizer") == "auto" else args("optimizer"),
        "automatic": args("optimizer") == "auto",
        "amp": bool(args("amp")) and cuda,
        "freeze": args("freeze"),
        "checkpointing": rung.values.get(CHECKPOINTING) or False,
        "cuda": cuda,
        "wanted": WANTED,
    }
    sizes = {
        "images": rung.micro_batch,
        "side": drawn // STRIDE,
        "val_images": said.val_batch or 2 * rung.micro_batch,
        "val_side": _asked(rung) // STRIDE + 1,  # rectangles are padded by half a stride, then to the next one
    }
    return Tracing(
        module="launcher.trainers.ultralytics.inside.trace",
        payload=payload,
        sizes=sizes,
        samples=("images", "val_images"),
        packages=("ultralytics", "torchvision"),
        environment=environment.prepare,
        rests=RESTS,
        expandable=True,  # shapes always vary: see the adapter
        emptied_above=0.5,  # engine/trainer.py, 8.4.190
        cublas_bytes=DETERMINISTIC_BYTES if args("deterministic") else 0,
        left_out=LEFT_OUT,
    )


def _asked(rung: Rung) -> int:
    size = rung.values.get("image_size")
    return size if isinstance(size, int) and not isinstance(size, bool) else 640


def _drawn(rung: Rung) -> int:
    """Largest image side of a training batch, multi-scale included."""
    scale = rung.values.get("multi_scale")
    spread = float(scale) if isinstance(scale, (int, float)) else 0.0
    return int(_asked(rung) * (1 + spread)) // STRIDE * STRIDE


def _traced_as(model: str) -> str:
    """The architecture that a model's weights have: a published name's own .yaml, else the file that is here."""
    path = Path(model)
    if path.suffix in (".yaml", ".yml"):
        found = yolo_models.locate(model)
    else:
        found = yolo_models.locate(f"{path.stem}.yaml") if yolo_models.size_of(path.name) else yolo_models.locate(model)
    if found.path is None:
        raise Untraceable(f"{model} isn't here, and neither is the .yaml that it is built from")
    return found.model if found.kind == "architecture" else str(found.path.absolute())


def _age(model: str) -> str:
    """Of a file of the person's: another one of that name is another model."""
    path = Path(model)
    return f"{path.stat().st_mtime_ns} {path.stat().st_size}" if path.is_file() else ""
