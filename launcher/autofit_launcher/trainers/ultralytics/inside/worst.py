"""Chooses the micro-batches of a trial: the densest images, the largest shapes, and as many others as count."""

from __future__ import annotations

import importlib
import itertools
import math
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ....common.orders import Orders
from ....inside.loaders import BESIDE

FIGURES = 3
"""Ultralytics draws the first three batches of a validation."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One micro-batch."""

    images: tuple[int, ...]
    """Indices into the data set."""
    size: int | None = None
    """The size that multi_scale draws for it; None where nothing is drawn."""
    labels: int = field(default=0, compare=False)
    """Labels of its densest image."""


class TrialBatches:
    """The batch sampler of a trial: which micro-batches come, epoch by epoch. The last repeats, for loader workers that fetch ahead."""

    def __init__(self, *epochs: Sequence[MicroBatch]) -> None:
        self.epochs = epochs
        self.epoch = 0
        self.sampler = self  # InfiniteDataLoader takes its length from there

    @property
    def now(self) -> Sequence[MicroBatch]:
        return self.epochs[min(self.epoch, len(self.epochs) - 1)]

    def __len__(self) -> int:
        return len(self.now)

    def __iter__(self) -> Iterator[list[int]]:
        for epoch in itertools.count(self.epoch):
            for draw in self.epochs[min(epoch, len(self.epochs) - 1)]:
                yield list(draw.images)


def takes(loader: Any, script: TrialBatches, *, of: int = 1) -> None:
    """Gives the loader the script's batches from now on. ``of``: so many make one of the run's, whose workers hold as much ahead."""
    object.__setattr__(loader, "batch_sampler", script)  # DataLoader forbids a plain assignment
    if loader.num_workers:
        loader.prefetch_factor = (loader.prefetch_factor or 2) * of + math.ceil(BESIDE * (of - 1) / loader.num_workers)
    if getattr(loader, "iterator", None) is not None:  # made with the loader (before 8.4.150): it has the old sampler
        loader.reset()


def drawn_sizes(image_size: int, multi_scale: float, stride: int) -> list[int]:
    """Every size that multi_scale can draw, smallest first (``DetectionTrainer.preprocess_batch``)."""
    least, past = max(stride, int(image_size * (1 - multi_scale))), int(image_size * (1 + multi_scale) + stride)
    return sorted({size // stride * stride for size in range(least, past)})


def densest(labels: Sequence[int], size: int) -> list[int]:
    """Indices of the ``size`` images with most labels; repeated where there are fewer images."""
    order = sorted(range(len(labels)), key=lambda i: -labels[i])
    return (order * math.ceil(size / len(order)))[:size]


def shapes_of(loader: Any, sizes: Sequence[int] | None = None, *, last_kept: bool = True, most: int = sys.maxsize) -> list[MicroBatch]:
    """One micro-batch for every shape that a run over ``loader`` can have, most pixels first; of each shape the densest.

    Rectangular data keeps its groups, which share a shape; other data comes densest first. The last batch of an epoch may be smaller.
    ``most``: images that are taken at once, where batches come in parts.
    """
    dataset = loader.dataset
    labels = [len(label["cls"]) for label in dataset.labels]
    if getattr(dataset, "rect", False):
        groups: dict[int, list[int]] = {}
        for image in sorted(range(len(labels)), key=lambda i: -labels[i]):
            groups.setdefault(int(dataset.batch[image]), []).append(image)
        kept: dict[tuple[int, ...], tuple[int, ...]] = {}
        for number, group in groups.items():  # the one with the densest image first
            kept.setdefault((len(group[:most]), *map(int, dataset.batch_shapes[number])), tuple(group[:most]))
        base = [(images, math.prod(shape[1:])) for shape, images in kept.items()]
    else:
        of_rank = len(getattr(loader, "sampler", labels))  # of several ranks each has a part of the images
        batches = {loader.batch_size, *(count % loader.batch_size if last_kept else 0 for count in (len(labels), of_rank))}
        counts = {count for images in batches for count in (min(images, most), images % most)} - {0}
        base = [(tuple(densest(labels, count)), 1) for count in counts]
    found = [
        (MicroBatch(images, size, max(labels[image] for image in images)), len(images) * area * (size or 1) ** 2)
        for images, area in base for size in (sizes or (None,))
    ]  # fmt: skip
    return [draw for draw, _ in sorted(found, key=lambda one: -one[1])]


def varied(shapes: Sequence[MicroBatch]) -> list[MicroBatch]:
    """The largest, the one with the densest image (of rectangular ones it may be none of the largest), the smallest and an odd one; fewer
    where there are no more. The largest comes again behind them: on a card that shows what fragments cost."""
    return list(dict.fromkeys((shapes[0], max(shapes, key=lambda one: one.labels), shapes[-1], shapes[len(shapes) // 2])))


def training(shapes: Sequence[MicroBatch], orders: Orders, *, closes: bool) -> tuple[list[MicroBatch], ...]:
    """The epochs of a trial: before validation, after it, and with mosaic closed where the run ``closes`` it.

    Each begins with the largest shape and has it again as the last micro-batch of its last step, when gradients are held. Where a
    step takes several micro-batches, one is left over: a run's epoch that its step doesn't divide validates with gradients held, too.
    """
    accumulation = orders.trial_accumulation
    largest, leftover = shapes[0], shapes[-1:] if accumulation > 1 else []
    before = _filled(varied(shapes), largest, orders.steps * accumulation, accumulation)
    after = _filled(varied(shapes), largest, orders.steps_after * accumulation, accumulation)
    return ([*before, *leftover], after, *([[largest, largest]] if closes else []))


def _filled(draws: Sequence[MicroBatch], largest: MicroBatch, least: int, multiple: int) -> list[MicroBatch]:
    """``draws``, then the largest until there are ``least`` and whole steps; where shapes vary it comes at the end in any case."""
    wanted = len(draws) + (1 if len(draws) > 1 else 0)
    wanted = math.ceil(max(wanted, least) / multiple) * multiple
    return [*draws, *[largest] * (wanted - len(draws))]


def validation(shapes: Sequence[MicroBatch], *, least: int, total: int) -> list[MicroBatch]:
    """The batches of a validation: the largest, the densest, a small and an odd one, and the largest again."""
    return _filled(varied(shapes), shapes[0], max(least, min(FIGURES, total)), 1)


def label_factor(args: Any, rect: bool) -> int:
    """Counts how many times the densest image's labels one training image can come to hold.

    Mosaic joins 4 images; mixup and cutmix join two of those; copy_paste (segments) doubles. rect turns them all off.
    """
    if rect:
        return 1
    joins = 4 if args.mosaic > 0 else 1
    joins *= 2 if args.mixup > 0 or getattr(args, "cutmix", 0) > 0 else 1  # which came with 8.3.150 (about)
    return joins * (2 if args.copy_paste > 0 and args.task in ("segment", "obb") else 1)


def pad_labels(batch: dict[str, Any], wanted: int, overlap_masks: bool) -> int:
    """Repeats one label of the batch's densest image until that image has ``wanted``; returns its number of labels.

    The assigner pads every image to the densest, so one image sets the memory of all. Copies of a box are never assigned
    (the first of equals wins), so the loss stays what it was.
    """
    import torch

    index = batch["batch_idx"].long()
    if not len(index):
        return 0
    counts = torch.bincount(index)
    missing = wanted - int(counts.max())
    if missing <= 0:
        return int(counts.max())
    source = int((index == int(counts.argmax())).nonzero()[-1])
    place = source + 1  # beside its image's own: the assigner wants labels in image order
    for key in ("batch_idx", "cls", "bboxes", "keypoints", *(() if overlap_masks else ("masks",))):
        if key in batch:
            value = batch[key]
            copies = value[source : source + 1].expand(missing, *value.shape[1:])
            batch[key] = torch.cat((value[:place], copies, value[place:]))
    return wanted


def with_halves(epochs: Sequence[Sequence[MicroBatch]], halves: int) -> list[list[MicroBatch]]:
    """The epochs, the last of which ends with so many micro-batches of half the images of its last."""
    largest = epochs[-1][-1]
    half = replace(largest, images=largest.images[: max(1, len(largest.images) // 2)])
    return [*map(list, epochs[:-1]), [*epochs[-1], *[half] * halves]]


class Sizes:
    """multi_scale draws the size of each micro-batch by ``random.randrange(least, most + 1)``; the trial says which it gets.

    In 8.4.0 it is the part of micro-batches whose size is drawn at all (``random.random() < multi_scale``): here each. Whatever else a
    version asks of chance it gets.
    """

    def __init__(self) -> None:
        self.wanted: int | None = None
        """None: the largest."""
        importlib.import_module("ultralytics.models.yolo.detect.train").random = self  # type: ignore[attr-defined]

    def randrange(self, least: int, past: int) -> int:
        return past - 1 if self.wanted is None else min(max(self.wanted, least), past - 1)

    def random(self) -> float:
        return 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(random, name)
