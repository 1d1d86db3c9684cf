"""Steers one of Ultralytics' trainers through a trial: few epochs of the worst micro-batches, a validation, and the end of a real run.

The loop, the loaders, the validator and the optimizer are Ultralytics' own, and so is the end: mosaic closed, checkpoints saved and
loaded, the fused model validated, figures drawn. Which images come, in which shapes and how many is chosen (``worst``).
"""

from __future__ import annotations

import contextlib
import gc
import math
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from ....common.report import SAID_ACCUMULATION, Phase
from ....inside.instrument import Instrument
from . import worst

_Trainer: Any = object


class Steered(_Trainer):  # type: ignore[misc]
    """Stands before a trainer in a class of both."""

    instrument: Instrument
    epochs: int
    _validated = False
    _drawn = 0
    """Micro-batches of this epoch."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._sizes = worst.Sizes()
        super().__init__(*args, **kwargs)

    # -- the worst data

    def get_dataloader(self, dataset_path: Any, batch_size: int = 16, rank: int = 0, mode: str = "train") -> Any:
        loader = super().get_dataloader(dataset_path, batch_size=batch_size, rank=rank, mode=mode)
        if mode == "train":
            self._recorder.measured(train_samples=len(loader.dataset))
            worst.takes(loader, self._epochs_of(loader), of=math.ceil(loader.batch_size / self._micro_batch))
        return loader

    def _epochs_of(self, loader: Any) -> worst.TrialBatches:
        orders, args = self.instrument.orders, self.args
        multi_scale = 0.5 if args.multi_scale is True else args.multi_scale  # a flag in 8.3: from half to one and a half
        sizes = worst.drawn_sizes(args.imgsz, multi_scale, self.stride) if multi_scale else None
        shapes = worst.shapes_of(loader, sizes, last_kept=not loader.drop_last, most=self._micro_batch)
        epochs = worst.training(shapes, orders, closes=0 < args.close_mosaic < self.epochs)
        epochs = epochs[:2] if orders.resumes else epochs  # the first of two is done
        return worst.TrialBatches(*worst.with_halves(epochs, orders.halves if self._micro_batch > 1 else 0))

    def preprocess_batch(self, batch: Any) -> Any:
        script, halves = self.train_loader.batch_sampler.now, self.instrument.orders.halves
        draw = script[min(self._drawn, len(script) - 1)]
        if [str(name) for name in batch["im_file"]] != [str(self.train_loader.dataset.im_files[index]) for index in draw.images]:
            raise RuntimeError("this Ultralytics takes its training images from elsewhere than its loader's batch_sampler")
        self._drawn += 1
        if halves and self._drawn == len(script) - halves + 1 and self.epoch >= self.epochs - 1:
            self._recorder.halves_begin()
        self._sizes.wanted = draw.size
        batch = super().preprocess_batch(batch)
        worst.pad_labels(batch, self._most_labels, self.args.overlap_mask)
        self._observe(batch["img"])
        return batch

    def _observe(self, images: Any) -> None:
        """The largest micro-batch and side that came. A data set smaller than the micro-batch alters nothing."""
        count = self._micro_batch if len(images) == len(self.train_loader.dataset) else len(images)
        self._recorder.observe_most(micro_batch=count, largest_input=max(images.shape[-2:]))

    # -- how much of it

    @property
    def _recorder(self) -> Any:
        return self.instrument.recorder

    @property
    def _micro_batch(self) -> int:
        """Images of one forward and backward pass. Of a program whose batch nobody has read, all that come at once."""
        return int(self.instrument.orders.payload["micro_batch"] or self.batch_size)

    @property
    def accumulate(self) -> int:
        """Gives what Ultralytics' loop compares with the micro-batches since its last step: in the trial every second ends one, or each."""
        return sys.maxsize if self._drawn % self.instrument.orders.trial_accumulation else 1

    @accumulate.setter
    def accumulate(self, value: int) -> None:
        """Ultralytics' own, by its batch and its warm-up, is that of the run."""

    def _setup_train(self, *world_size: Any) -> None:
        if self.instrument.orders.device == "cpu":
            gc.disable()  # what figures leave as garbage may be there in the run, whose collector comes at other moments
            gc.enable = gc.disable  # Ultralytics does so whenever it has read labels
        super()._setup_train(*world_size)  # 8.3.63 gives it
        skip_nothing(self.scaler, self.model.parameters())
        dataset = self.train_loader.dataset
        most = max((len(label["cls"]) for label in dataset.labels), default=0)
        self._most_labels = most * worst.label_factor(self.args, bool(dataset.rect))
        self._recorder.note(f"worst data: the densest training image has {most} labels; {self._most_labels} allowed for after augmentation")
        self._recorder.observe(image_size=self.args.imgsz)
        self._recorder.fact(**{SAID_ACCUMULATION: self.instrument.orders.accumulation})
        self._script()

    def _script(self) -> None:
        """Takes as many epochs as the loader has. Mosaic closes for the last of them where the run closes it on its way (not in a trial
        that goes on from a checkpoint), and from the start where the run does."""
        scripted, args = len(self.train_loader.batch_sampler.epochs), self.args
        self._asked_args = {name: getattr(args, name) for name in ("close_mosaic", "val", "save", "plots")}
        if args.close_mosaic:
            args.close_mosaic = scripted if args.close_mosaic >= self.epochs else int(not self.instrument.orders.resumes)
        args.val = args.save = True  # a run that has them off does both after its last epoch
        if self.instrument.orders.device == "cuda":
            args.plots = False  # figures take seconds, and nothing of a card
        self._only_epoch, self.epochs = self.epochs == 1, scripted
        self.stopper.patience = math.inf

    def run_callbacks(self, event: str) -> None:
        """Ultralytics says here where its loop is."""
        if event == "on_train_epoch_start":
            self.train_loader.batch_sampler.epoch, self._drawn = self.epoch, 0
            self.instrument.training()
        elif event == "on_train_batch_end" and not bool(self.loss.isfinite().all()):
            self._recorder.loss(finite=False)  # Ultralytics would go back to its last checkpoint three times, and then give up
            self.instrument.finish()
        super().run_callbacks(event)

    def save_model(self) -> Any:
        """Saves with the arguments that the run has. The first checkpoint is of a training that isn't over."""
        scripted = {name: getattr(self.args, name) for name in self._asked_args}
        self.args.__dict__.update(self._asked_args)
        try:
            return super().save_model()
        finally:
            self.args.__dict__.update(scripted)
            if self.epoch == 0:
                self.instrument.keep_checkpoint()

    # -- validation, and how a run ends

    def validate(self) -> Any:
        if self._validated and self.epoch < self.epochs - 1:
            return self.metrics and dict(self.metrics), self.fitness  # only rank 0 has metrics
        if self._validated:  # the last epoch's draws figures where it is a run's first, and the final one comes upon what they left
            self.instrument.to(Phase.FINISH)
            self.validator.args.plots = self.args.plots and not self._asked_args["val"]
        epochs, self.epochs = self.epochs, self.epochs if self._validated or not self._only_epoch else 1
        with self._gradients_held():
            result = super().validate()
        self._validated, self.epochs = True, epochs
        return result

    def final_eval(self) -> None:
        """The best checkpoint is loaded beside everything else, fused and validated: in the trial's first process."""
        if self.instrument.orders.resumes:
            self.instrument.finish()
        self.instrument.to(Phase.FINISH)
        with self._gradients_held():
            super().final_eval()

    @contextlib.contextmanager
    def _gradients_held(self) -> Iterator[None]:
        """An epoch of a run may end between two optimizer steps: Ultralytics counts on into the next one, and validates beside the
        gradients so far. A trial's may end after a step."""
        held = [one for one in self.model.parameters() if one.requires_grad and one.grad is None]
        for one in held if self.instrument.orders.accumulation > 1 else ():
            one.grad = one.new_zeros(one.shape)
        try:
            yield
        finally:
            for one in held:
                one.grad = None


def skip_nothing(scaler: Any, parameters: Iterable[Any]) -> None:
    """Lets fp16's ``GradScaler`` begin with 1, and gradients that overflow even so be zeros: it takes no step where one overflows, as the
    first of a training often do, and a trial has no more. Memory is the same.

    No scale is small enough for all: attention behind a batch norm of hardly any variance (a frozen, untrained backbone) has gradients
    of 1e9 (played survival, seeds 2005 and 2009). ``parameters``: what is trained.
    """
    if scaler is None or not scaler.is_enabled():
        return
    scaler.load_state_dict({**scaler.state_dict(), "scale": 1.0})
    for parameter in parameters:
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(_finite)


def _finite(parameter: Any) -> None:
    parameter.grad.nan_to_num_(0.0, 0.0, 0.0)
