"""Makes the few batches of a validation need what the whole set does: the largest first, and NMS at its worst."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ....common.report import Phase
from ....inside.instrument import Instrument
from . import worst

COVERED = ("detect", "segment", "pose", "obb")
ANCHORS_PER_OBJECT = 10
"""Anchors that Ultralytics' assigner trains for each object (``topk``): about what a half-trained model fires per object."""


def install(instrument: Instrument, module: Any) -> None:
    """Patches ``ultralytics.engine.validator``: a trainer's own validations, and those that a script asks for itself."""
    call = module.BaseValidator.__call__

    @functools.wraps(call)
    def validated(this: Any, trainer: Any = None, model: Any = None, **kwargs: Any) -> Any:
        instrument.open()
        if instrument.recorder is None or this.args.task not in COVERED:
            return call(this, trainer, model, **kwargs)
        if "whole_set" not in vars(this):
            this.whole_set = True
            _takes_a_few_batches(this, instrument)
        instrument.validating()
        result = call(this, trainer, model, **kwargs)
        instrument.evaluated()
        return result

    module.BaseValidator.__call__ = validated


def _takes_a_few_batches(validator: Any, instrument: Instrument) -> None:
    """Cuts a validator's loader, now or as soon as it is made, and has each batch seen."""
    recorder, loads, preprocess, tells = instrument.recorder, validator.get_dataloader, validator.preprocess, validator.run_callbacks
    assert recorder is not None
    if validator.args.save_json and validator.args.task == "detect":  # it numbers images, of which a trial takes some several times
        validator.args.save_json = False
        recorder.note("save_json: what it holds of every image, in host memory, isn't in the trial")
    least = instrument.wanted_validation if instrument.orders.device == "cuda" else instrument.orders.validation_batches

    def cut(loader: Any) -> Any:
        if instrument.phase is not Phase.FINISH:
            recorder.measured(validation_batches_total=len(loader))
        draws = worst.validation(worst.shapes_of(loader), least=least, total=len(loader))
        worst.takes(loader, worst.TrialBatches(draws))
        _at_its_worst_nms(validator, loader)
        return loader

    def seen(batch: Any) -> Any:
        batch = preprocess(batch)
        images = len(batch["img"])
        if validator.training:
            asked = instrument.orders.payload.get("val_micro_batch")
            if asked and images == len(validator.dataloader.dataset):
                images = max(images, asked)  # a validation set smaller than its batch alters nothing
            recorder.observe_most(val_micro_batch=images, largest_val_input=max(batch["img"].shape[-2:]))
        return batch

    def told(event: str) -> None:
        tells(event)
        if event == "on_val_batch_end":
            instrument.validation_batch() if instrument.phase is Phase.VALIDATE else recorder.sample()

    validator.preprocess, validator.run_callbacks = seen, told
    validator.get_dataloader = lambda *args, **kwargs: cut(loads(*args, **kwargs))
    if validator.dataloader is not None:
        cut(validator.dataloader)


def _at_its_worst_nms(validator: Any, loader: Any) -> None:
    """An untrained model passes hardly a box on to NMS, a half-trained one up to 30,000 per image; here ``conf=0`` passes them all.

    Costs 0.17 s per image of 80 classes at 640 px on one CPU core; Ultralytics itself ends it after 2 s + 0.05 s per image.
    Oriented boxes are compared all with all (``TorchNMS.fast_nms``: 30,000 boxes take tens of GB and 150 s on a CPU), which is why
    Ultralytics raises ``conf`` for them. There, as many boxes go through as a trained model fires on the densest image.
    """
    if validator.args.task != "obb":
        validator.args.conf = 0.0
        return
    most = max((len(label["cls"]) for label in loader.dataset.labels), default=0)
    validator.postprocess = passing(max(validator.args.max_det, ANCHORS_PER_OBJECT * most), validator)


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
