"""What others have measured on cards, and which of ``subjects`` does the same.

Whole trainings, AutoBatch's probes and BERT-large: the 19 points of docs/prediction.md, of which 8 are trainings that autofit launches.
Ultralytics prints ``memory_reserved() / 1e9`` up to 8.3.74, ``/ 2**30`` later. A probe's figure is reserved memory, too; BERT's are what
nvidia-smi showed, less the 1343 MiB that it showed before.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.prediction.__main__ import POINTS as TRAININGS
from launcher.shared.sizes import MIB

LABELS = 20
"""In an image; not published for any of them."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One figure."""

    what: str
    card: str
    measured_bytes: int
    subject: str
    words: tuple[int | str, ...]
    source: str


def _training(model: str, classes: int, images: int, pixels: int, card: str, size: float, source: str) -> Point:
    words = (model, classes, images, pixels, LABELS)
    what = f"{model}, {classes} classes, {images} x {pixels}"
    return Point(what=what, card=card, measured_bytes=round(size), subject="yolo_training", words=words, source=source)


def _probe(model: str, images: int, pixels: int, card: str, size: float, source: str, *, backward: int = 1) -> Point:
    what = f"{model}, AutoBatch's probe, {images} x {pixels}"
    return Point(
        what=what, card=card, measured_bytes=round(size), subject="yolo_probe", words=(model, images, pixels, backward), source=source
    )


def _bert(samples: int, accumulation: int, shown_mib: int, *, checkpointing: int = 0, fp16: int = 0) -> Point:
    also = [name for name, on in (("checkpointing", checkpointing), ("fp16", fp16)) if on]
    what = ", ".join([f"BERT-large, {samples} x 512 tokens, accumulated over {accumulation}", *also])
    size, words = (shown_mib - 1343) * MIB, (samples, accumulation, checkpointing, fp16)
    return Point(what=what, card="v100_16gb", measured_bytes=size, subject="bert", words=words, source="transformers' page on memory")


POINTS = (
    *(_training(*point) for point in TRAININGS),
    _training("yolo11l", 4, 16, 640, "rtx_4080s", 11.6e9, "SCENARIOS S2: 11.4 to 11.8 GB read by its owner, who doesn't say with what"),
    _probe("yolov8s", 8, 640, "t4", 2.208e9, "ultralytics issue 4679"),
    _probe("yolov8s", 16, 640, "t4", 4.154e9, "ultralytics issue 4679"),
    _probe("yolov8n", 8, 480, "rtx_4090", 0.719e9, "ultralytics issue 1451"),
    _probe("yolov8n", 16, 480, "rtx_4090", 1.197e9, "ultralytics issue 1451"),
    _probe("yolov8l-seg", 8, 640, "a100_40gb", 10.127e9, "ultralytics issue 1659", backward=0),
    _probe("yolov8l-seg", 16, 640, "a100_40gb", 19.623e9, "ultralytics issue 1659", backward=0),
    _bert(4, 1, 14949),
    _bert(1, 4, 8681),
    _bert(1, 4, 6775, checkpointing=1),
    _bert(4, 1, 13939, fp16=1),
    _bert(1, 4, 7275, checkpointing=1, fp16=1),
)
