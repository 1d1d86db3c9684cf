"""Makes the few validation batches of a trial need what the whole set does: suppression at its worst, metrics of all images."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from launcher.inside.recorder import Recorder
from launcher.trainers.ultralytics.inside.plan import NotCovered
from launcher.trainers.ultralytics.inside.unseen import Hooks

ANCHORS_PER_OBJECT = 10
"""Anchors that Ultralytics' assigner trains for each object (``topk``): about what a half-trained model fires per object."""


def growth_of(kept: Sequence[int]) -> float:
    """Bytes that each of these batches, all alike, has kept for good, where every one of them added something; else 0.

    ``kept``: live memory after each; a card's goes up and down by itself.
    """
    return float(max(0, min(after - before for before, after in itertools.pairwise(kept))))


def kept_bytes() -> int:
    """What validation on a card holds on to after a batch."""
    import torch

    return int(torch.cuda.memory_allocated())


def whole_statistics(validator: Any, hooks: Hooks, *, ranks: int = 1) -> None:
    """The metrics, and the curves drawn of them, are worked out of the predictions on every image of the validation set.

    A trial validates a few batches of it; before the metrics come what these gave is repeated until it is as much. Each of several ranks
    has its part of that when rank 0 gathers them, on a card through the cards' memory.
    """
    get_stats, init_metrics = validator.get_stats, validator.init_metrics

    def with_numbers(model: Any) -> None:
        init_metrics(model)
        number_images(validator)

    validator.init_metrics = with_numbers

    def repeated(images: int) -> None:
        kept = getattr(validator.metrics, "stats", None) or validator.stats  # the validator's own before 8.3.200
        if kept:
            hooks.seen("statistics")
        for gathered in kept.values():
            if seen := len(gathered):
                gathered.extend(gathered[i % seen] for i in range(seen, images))

    def gathered_from_ranks() -> Any:
        repeated(math.ceil(len(validator.dataloader.dataset) / ranks))
        return gather()

    def of_all_images() -> Any:
        images = len(validator.dataloader.dataset)
        repeated(images)
        if getattr(validator, "gdict", None) and getattr(validator, "eval_ids", None):
            repeat_custom_json(validator, images)
        elif validator.jdict and validator.seen:
            validator.jdict = (validator.jdict * math.ceil(images / validator.seen))[
                : math.ceil(len(validator.jdict) * images / validator.seen)
            ]
        return get_stats()

    validator.get_stats = of_all_images
    if ranks > 1:
        if not hasattr(validator, "gather_stats"):
            raise NotCovered("this Ultralytics validates in one of several processes only, which no trial covers: take a newer one")
        gather = validator.gather_stats
        validator.gather_stats = gathered_from_ranks


def number_images(validator: Any) -> None:
    """``save_json`` on a person's own data set (Ultralytics 8.4.180, about) numbers its images in the order of the loader; a trial's loader
    gives some of them several times, and each needs a number of its own."""
    if getattr(validator, "eval_ids", None) is not None:
        drawn = sum(len(draw.images) for draw in validator.dataloader.batch_sampler.now)
        validator.eval_ids = list(range(drawn))


def repeat_custom_json(validator: Any, images: int) -> None:
    """Predictions and truths in COCO's form are held for all ``images`` of the set: what the seen ones gave is repeated, renumbered."""
    seen, truths = len(validator.pred_counts), validator.gdict
    ends = list(itertools.accumulate(validator.pred_counts))
    of_image: dict[int, list[Any]] = {}
    for one in truths["annotations"]:
        of_image.setdefault(one["image_id"], []).append(one)
    for number in range(seen, images if seen else 0):
        source = number % seen
        count = validator.pred_counts[source]
        validator.jdict += [dict(one) for one in validator.jdict[ends[source] - count : ends[source]]]
        validator.pred_counts.append(count)
        if validator.build_gdict:
            truths["images"].append({"id": number})
            own = of_image.get(source, [])
            truths["annotations"] += [{**one, "id": (number << 32 | i) + 1, "image_id": number} for i, one in enumerate(own)]


def worst_nms(trainer: Any, recorder: Recorder) -> None:
    """An untrained model passes hardly a box on to NMS, a half-trained one up to 30,000 per image; here ``conf=0`` passes them all.

    Costs 0.17 s per image of 80 classes at 640 px on one CPU core; Ultralytics itself ends it after 2 s + 0.05 s per image.
    Oriented boxes are compared all with all (``TorchNMS.fast_nms``: 30,000 boxes take tens of GB and 150 s on a CPU), which is why
    Ultralytics raises ``conf`` for them. There, as many boxes go through as a trained model fires on the densest image.
    """
    validator = trainer.validator
    if trainer.args.task != "obb":
        validator.args.conf = 0.0
    else:
        most = max((len(label["cls"]) for label in trainer.test_loader.dataset.labels), default=0)
        boxes = max(validator.args.max_det, ANCHORS_PER_OBJECT * most)
        validator.postprocess = passing(boxes, validator)
        recorder.note(
            f"non-maximum suppression of oriented boxes saw {boxes} boxes per image: {ANCHORS_PER_OBJECT} per object of the densest"
        )


def passing(boxes: int, validator: Any) -> Callable[[Any], Any]:
    """The validator's own ``postprocess`` at the confidence that lets about ``boxes`` boxes of every image through."""
    postprocess = validator.postprocess

    def at_that_confidence(predictions: Any) -> Any:
        found = predictions[0] if isinstance(predictions, list | tuple) else predictions
        if not getattr(validator, "end2end", False):
            scores = found[:, 4 : 4 + validator.nc].flatten(1).nan_to_num()  # RMSProp can leave such weights
            kth = scores.kthvalue(max(1, scores.shape[1] - boxes), dim=1).values
            validator.args.conf = float(kth.min().clamp(0, 1))
        return postprocess(predictions)

    return at_that_confidence
