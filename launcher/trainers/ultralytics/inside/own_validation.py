"""A validation that a script asks for itself after its training: its largest batches, beside all that the training has left."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ultralytics import YOLO
from ultralytics.engine.model import Model

from launcher.inside.recorder import Recorder
from launcher.trainers.ultralytics.inside import worst
from launcher.trainers.ultralytics.inside.validation import ANCHORS_PER_OBJECT, passing


def validate(model: Any, asked: Sequence[Mapping[str, Any]], recorder: Recorder, **always: Any) -> None:
    """Makes each of the validations, with the keywords that are known of it. ``always``: those that hold for all."""
    trainer = model.trainer
    done = YOLO(str(trainer.best if trainer.best.exists() else trainer.last))
    model.model, model.ckpt, model.overrides = done.model, done.ckpt, {**done.overrides}
    for said in asked:
        with _told(recorder, said):
            Model.val(model, validator=_of_a_few_batches(model._smart_load("validator")), **{**always, **said})
    if asked:
        recorder.note(f"the script's own validation afterwards was tried: batch {', '.join(str(said.get('batch', 16)) for said in asked)}")


def _of_a_few_batches(base: Any) -> Any:
    """A validator that does what ``base`` does, on the largest batches alone, with as many boxes as a half-trained model fires."""

    class FewBatches(base):  # type: ignore[misc]
        def get_dataloader(self, dataset_path: str, batch_size: int) -> Any:
            loader = super().get_dataloader(dataset_path, batch_size)
            shapes, dense = worst.shapes_of(loader), worst.dense_draw(loader, None)
            draws = worst.validation(shapes, dense=dense, least=2, total=len(loader))
            object.__setattr__(loader, "batch_sampler", worst.TrialBatches(draws))
            if getattr(loader, "iterator", None) is not None:
                loader.reset()
            if self.args.task == "obb":
                most = max((len(label["cls"]) for label in loader.dataset.labels), default=0)
                self.postprocess = passing(max(self.args.max_det, ANCHORS_PER_OBJECT * most), self)
            else:
                self.args.conf = 0.0
            return loader

    return FewBatches


@contextlib.contextmanager
def _told(recorder: Recorder, said: Mapping[str, Any]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        recorder.note(
            f"the training went through; what failed is the script's own model.val afterwards, with a batch of {said.get('batch', 16)}: "
            "no rung turns that, so let the script give it less"
        )
        raise
