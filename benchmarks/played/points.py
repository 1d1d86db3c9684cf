"""What others have measured on cards, and which of ``subjects`` does the same.

Whole trainings, AutoBatch's probes and BERT-large: 19 published points, of which 8 are trainings that autofit launches.
Ultralytics prints ``memory_reserved() / 1e9`` up to 8.3.74, ``/ 2**30`` later. A probe's figure is reserved memory, too; BERT's are what
nvidia-smi showed, less the 1343 MiB that it showed before.
"""

from __future__ import annotations

from dataclasses import dataclass

from autofit_launcher.common.sizes import MIB

LABELS = 20
"""In an image; not published for any of them."""

# model, classes, images, side in pixels, card, published bytes, where
TRAININGS: tuple[tuple[str, int, int, int, str, float, str], ...] = (
    ("yolo11m", 3, 8, 640, "rtx_3090", 4.45e9, "Ultralytics 8.3.74, torch 2.5.1; later 4.59 to 4.64"),
    ("yolo11l", 3, 8, 640, "rtx_3090", 5.66e9, "the same data; later 5.81 to 5.87"),
    ("yolo11x", 3, 8, 640, "rtx_3090", 8.66e9, "the same data; later 8.84 to 9.09"),
    ("yolov8m", 7, 16, 640, "rtx_3060", 6.43e9, "Ultralytics 8.0.170, torch 2.0.1; later 6.61 to 6.66"),
    ("yolo11n", 13, 16, 640, "t4", 2.48e9, "Ultralytics 8.3.17, torch 2.4.1; later 2.39 to 2.43"),
    ("yolov8l", 48, 16, 640, "t4", 11.2e9, "Ultralytics 8.2.5, torch 2.2.1; later 10.9 to 11.0"),
    ("yolov8x", 17, 16, 640, "t4", 14.3e9, "Ultralytics 8.1.29, torch 2.2.1; later 14.9, at the card's limit"),
    ("yolo26s", 4, 5, 960, "t4", 3.76 * 2**30, "Ultralytics 8.4.116, torch 2.11; later 3.94 GiB"),
)


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
