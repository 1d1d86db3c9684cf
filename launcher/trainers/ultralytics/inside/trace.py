"""``python -m launcher.trainers.ultralytics.inside.trace ORDERS``: traces of YOLO trainings. Nothing is computed, no data is read.

Model, loss, label assigner and optimizer are Ultralytics' own, checkpointing is ``layer_checkpointing``'s; what ``engine/trainer.py``
(8.4.190) does around them is said again here, in its order. Only what counts labels is replaced: a trace has none.

Payload: ``model`` (.yaml or .pt), ``classes``, ``channels``, ``labels`` (most in one image), ``optimizer``, ``automatic`` (the trainer
chooses it), ``amp``, ``freeze``, ``checkpointing`` (or its share), ``cuda`` (bool), ``wanted`` (images, side, val_images, val_side: sizes
to be near to).
"""

from __future__ import annotations

import contextlib
import copy
import logging
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from launcher.shared.report import Phase
from launcher.shared.trace import Trace
from launcher.worker import tracing
from launcher.worker.tracing import Counts, Tracer, autocast

STRIDE = 32
SPREAD = 1 / 50
"""Part of all anchors that lie in a box: for the assigner's pairs of candidates."""
TOP = 10
"""Anchors that the assigner trains for each object."""
NMS_WORD = 64
"""torchvision's suppression keeps a matrix of boxes x boxes / 64 words."""
MOST_BOXES = 30_000
"""``max_nms`` of ``utils/nms.py``."""


def main(orders: Path) -> None:
    logging.getLogger("ultralytics").setLevel(logging.ERROR)
    tracing.main(orders, trace)


def trace(payload: Mapping[str, Any]) -> Trace:
    """One training: a micro-batch with its step, two validation batches, a micro-batch of an accumulated batch with its step."""
    from launcher.trainers.ultralytics.native import layer_checkpointing

    if payload["checkpointing"]:
        layer_checkpointing.enable(float(payload["checkpointing"]))
    else:
        layer_checkpointing.disable()
    real = _built(payload)
    sizes = tracing.primes(payload["wanted"], beside={*tracing.dimensions(real), payload["classes"], payload["labels"], MOST_BOXES})
    average = _sharing_copy(real).eval()
    counts = Counts(sizes=tuple(sizes.values()), exact=_of_the_assigner(sizes, payload["labels"]))
    with _labels_without_data(payload["labels"]), tracing.tracing(counts) as (tracer, mode):
        tracer.begin(Phase.SETUP)
        for model in (real, average):
            tracing.without_memory(model, mode)
            tracer.adopt([*model.parameters(), *model.buffers()])
        tracing.whole(_Run(payload, sizes, real, average, tracer), tracer)
        events = tuple(tracer.events)
    facts = {"parameters": sum(one.numel() for one in real.parameters()), "operators": tracer.operators}
    made_with = tracing.versions("torch", "ultralytics", "torchvision")
    return Trace(traced_at=sizes, events=events, versions=made_with, assumed=_assumed(payload), facts=facts)


def _assumed(payload: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{payload['labels']} objects in the densest image and {payload['classes']} classes",
        f"{SPREAD:.0%} of all anchors lie in an object's box",
        *((f"{payload['optimizer']}, where the trainer chooses its optimizer",) if payload.get("automatic") else ()),
    )


def _built(payload: Mapping[str, Any]) -> Any:
    """The model as the trainer builds it for this data, with real weights."""
    from ultralytics.cfg import get_cfg
    from ultralytics.nn.tasks import DetectionModel

    model = DetectionModel(_architecture(payload["model"]), ch=payload["channels"], nc=payload["classes"], verbose=False)
    model.args = get_cfg(overrides={"overlap_mask": True})
    frozen = payload.get("freeze") or []
    layers = [f"model.{one}." for one in (frozen if isinstance(frozen, list) else range(frozen))] + [".dfl"]
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not any(layer in name for layer in layers))
    return model.train()


def _architecture(model: str) -> Any:
    """A .yaml's name, or what a .pt was built from."""
    if not model.endswith(".pt"):
        return model
    from ultralytics import YOLO

    return YOLO(model).model.yaml


def _sharing_copy(model: Any) -> Any:
    """A copy that has the very same weights: both get their own without memory."""
    same = {id(one): one for one in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, memo=same)


def _of_the_assigner(sizes: Mapping[str, int], labels: int) -> Any:
    """How many anchors are candidates (a mask of images x boxes x anchors), and assigned (images x anchors)."""

    def count(mask: torch.Tensor) -> int | None:
        if mask.dim() == 2 and mask.shape[0] in (sizes["images"], sizes["val_images"]):
            return int(mask.shape[0]) * labels * TOP
        return None

    return count


@contextlib.contextmanager
def _labels_without_data(labels: int) -> Iterator[None]:
    """``v8DetectionLoss.preprocess`` counts labels by image; here each image has the most."""
    from ultralytics.utils.loss import v8DetectionLoss

    counting = v8DetectionLoss.preprocess

    def padded(self: Any, targets: torch.Tensor, batch_size: int, scale_tensor: torch.Tensor) -> torch.Tensor:
        return torch.zeros(batch_size, labels, targets.shape[1] - 1)

    v8DetectionLoss.preprocess = padded
    try:
        yield
    finally:
        v8DetectionLoss.preprocess = counting


class _Run:
    """The trainer's loop, for as long as a trace needs."""

    def __init__(self, payload: Mapping[str, Any], sizes: Mapping[str, int], model: Any, average: Any, tracer: Tracer) -> None:
        self.payload, self._sizes, self._model, self._average = payload, sizes, model, average
        self._dtype = torch.bfloat16 if payload["amp"] and payload["cuda"] else None  # as large as CUDA's fp16
        self.trained = [one for one in model.parameters() if one.requires_grad]
        for one in average.parameters():
            one.requires_grad_(False)
        model.criterion = model.init_criterion()
        tracer.adopt([value for value in vars(model.criterion).values() if isinstance(value, torch.Tensor)])
        self.optimizer = _optimizer(payload, model)
        self._held: dict[str, Any] = {}
        """What the trainer's attributes keep alive into the next micro-batch."""

    def micro_batch(self) -> None:
        with autocast(self._dtype):
            self._held["batch"] = self._batch(self._sizes["images"], self._sizes["side"])
            self._held["loss"], self._held["items"] = self._model(self._held["batch"])
            self._held["loss"] = self._held["loss"].sum()
        (self._held["loss"] * 65536.0 if self._dtype else self._held["loss"]).backward()

    def step(self) -> None:
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), max_norm=10.0, foreach=self.payload["cuda"])
        self.optimizer.step()
        self.optimizer.zero_grad()
        with torch.no_grad():
            ours, theirs = self._average.state_dict().values(), self._model.state_dict().values()
            pairs = [(one, other) for one, other in zip(ours, theirs, strict=True) if one.dtype.is_floating_point]
            torch._foreach_lerp_([one for one, _ in pairs], [other for _, other in pairs], 0.1)

    def _batch(self, images: int, side: int) -> dict[str, torch.Tensor]:
        labels, pixels = self.payload["labels"], side * STRIDE
        image = torch.empty((images, self.payload["channels"], pixels, pixels), dtype=torch.uint8)
        return {
            "img": image.float() / 255,
            "cls": torch.empty((images * labels, 1)),
            "bboxes": torch.empty((images * labels, 4)),
            "batch_idx": torch.empty((images * labels,)),
        }

    def validation(self) -> None:
        """The average model, its loss, and image by image the boxes that come to suppression, as many as there can be."""
        with torch.no_grad():
            for _ in range(2):
                batch = self._batch(self._sizes["val_images"], self._sizes["val_side"])
                with autocast(self._dtype):
                    predictions = self._average(batch["img"])
                    self._average.loss(batch, predictions)
                found = predictions[0] if isinstance(predictions, tuple) else predictions
                kept = [self._suppressed(one) for one in found.transpose(-1, -2).clone()]
            del batch, predictions, found, kept

    def _suppressed(self, predictions: torch.Tensor) -> torch.Tensor:
        boxes = torch.empty((min(MOST_BOXES, predictions.shape[0]), 6), dtype=predictions.dtype)
        order = torch.empty((boxes.shape[0],), dtype=torch.int64)
        chosen = boxes[order]
        matrix = torch.empty((boxes.shape[0] * -(-boxes.shape[0] // NMS_WORD),), dtype=torch.int64)
        del matrix, chosen
        return torch.empty((300, 6), dtype=predictions.dtype)


def _optimizer(payload: Mapping[str, Any], model: Any) -> torch.optim.Optimizer:
    """The trainer's own choice of groups and class; on a card it is fused."""
    from ultralytics.engine.trainer import BaseTrainer

    stand_in: Any = SimpleNamespace(args=SimpleNamespace(lr0=0.01, warmup_bias_lr=0.0), data={"nc": payload["classes"]})
    optimizer = BaseTrainer.build_optimizer(stand_in, model=model, name=payload["optimizer"], lr=0.01, momentum=0.9, decay=0.0005)
    fused = payload["cuda"] and type(optimizer).__name__ in ("Adam", "AdamW")
    for group in optimizer.param_groups:
        if "foreach" in group:
            group.update(foreach=payload["cuda"] and not fused, fused=fused)
    return optimizer


if __name__ == "__main__":
    main(Path(sys.argv[1]))
