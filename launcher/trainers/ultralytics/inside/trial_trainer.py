"""Ultralytics' own training loop, cut short: the worst images, few batches, and the end of a real run. Loads Ultralytics."""

from __future__ import annotations

import contextlib
import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from launcher.inside import loss_scale
from launcher.inside.recorder import Recorder
from launcher.shared.report import SAID_ACCUMULATION, UPDATES, Phase
from launcher.trainers.ultralytics.inside import going_on, worst
from launcher.trainers.ultralytics.inside.gloo import OverGloo
from launcher.trainers.ultralytics.inside.isolation import Scan
from launcher.trainers.ultralytics.inside.plan import EQUALS, NotCovered, Plan, TrialDone
from launcher.trainers.ultralytics.inside.unseen import Hooks
from launcher.trainers.ultralytics.inside.validation import growth_of, kept_bytes, whole_statistics, worst_nms
from launcher.trainers.ultralytics.inside.worst import MicroBatch, Sizes, TrialBatches, label_factor, pad_labels, with_halves
from launcher.trainers.ultralytics.native import yolo_ranks
from launcher.trainers.ultralytics.native.exact_trainer import Exact


class TrialTrainer(Exact):
    """Trains what its script says, validates, trains again and ends as a run does. ``trial`` joins it with one of Ultralytics' trainers."""

    plan: Plan
    recorder: Recorder
    hooks: Hooks
    scans: Sequence[Scan]
    epochs: int
    _validated = False
    _whole = True
    """Whether the batch under way has all its images; one that hasn't tells nothing of the run's pace."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._expected: dict[str, int] = {}
        self._sizes = Sizes()
        self._micro_batch = 0
        super().__init__(*args, **kwargs)
        if Path(self.save_dir).resolve() != self.plan.run_folder.resolve():
            raise NotCovered(f"Ultralytics writes into {self.save_dir} instead of the folder it was given; nothing was trained there")
        self._optimizer_asked = str(self.args.optimizer)
        _only_the_persons(self.callbacks)
        _with_loggers(self)
        self.callbacks["on_train_batch_end"].append(type(self)._batch_ended)
        self.callbacks["on_val_batch_end"].append(self._validation_batch_ended)
        self.callbacks["on_train_end"].append(type(self)._ended)

    # -- the worst data

    def get_dataloader(self, dataset_path: Any, batch_size: int = 16, rank: int = 0, mode: str = "train") -> Any:
        loader = super().get_dataloader(dataset_path, batch_size=batch_size, rank=rank, mode=mode)
        asked = batch_size if mode == "train" else self.plan.val_batch or batch_size
        _say_samples(self.recorder, loader, mode, asked)
        self._expected.setdefault(mode, min(asked, len(loader.dataset)))
        script = self._training_script(loader) if mode == "train" else self._validation_script(loader)
        object.__setattr__(loader, "batch_sampler", script)  # DataLoader forbids a plain assignment
        if getattr(loader, "iterator", None) is not None:  # made with the loader (before 8.4.150): it has the old sampler
            loader.reset()
        return loader

    def _training_script(self, loader: Any) -> TrialBatches:
        multi_scale = 0.5 if self.args.multi_scale is True else self.args.multi_scale  # a flag in 8.3: from half to one and a half
        sizes = worst.drawn_sizes(self.args.imgsz, multi_scale, self.stride) if multi_scale else None
        epochs = worst.training(
            worst.shapes_of(loader, sizes, last_kept=not loader.drop_last),
            self.plan.orders,
            dense=worst.dense_draw(loader, sizes[-1] if sizes else None),
            closes=0 < self.args.close_mosaic < self.epochs,
        )
        if self.plan.orders.resumes:  # the first of two is done
            return TrialBatches(*epochs[:2])
        return TrialBatches(*with_halves(epochs, self.plan.halves))

    def _validation_script(self, loader: Any) -> TrialBatches:
        shapes, dense = worst.shapes_of(loader), worst.dense_draw(loader, None)
        return TrialBatches(worst.validation(shapes, dense=dense, least=self.plan.validation_batches, total=len(loader)))

    def preprocess_batch(self, batch: Any) -> Any:
        script = self.train_loader.batch_sampler.now
        draw = script[min(self._micro_batch, len(script) - 1)]
        self.hooks.seen("training batches", _same_images(batch, self.train_loader.dataset, draw))
        self._micro_batch += 1
        if self.plan.halves and self._micro_batch == len(script) - self.plan.halves + 1 and self._last_epoch():
            self.recorder.halves_begin()
        self._sizes.wanted = draw.size
        batch = super().preprocess_batch(batch)
        self._whole = len(batch["img"]) >= self._expected["train"]
        pad_labels(batch, self._label_envelope, self.args.overlap_mask)
        height, width = batch["img"].shape[-2:]
        images = int(self.plan.arguments["batch"]) // self.plan.orders.world_size if self._whole else len(batch["img"])
        _observe_input(self.recorder, images, max(height, width), batch["img"].device.type)
        return batch

    def _last_epoch(self) -> bool:
        """Whether whole micro-batches are over: those of half the images end the last epoch."""
        return bool(self.epoch >= self.epochs - 1)

    # -- how much of it

    def _accumulation(self) -> int:
        """The real, exact accumulation outside the loop; the trial's own inside it. Resumed, Ultralytics itself steps at once."""
        if self._begun is None:
            return int(super()._accumulation())
        own = self.plan.orders.trial_accumulation
        return own if not self.plan.orders.resumes else 1 if self._begun % own == 0 else sys.maxsize

    def _setup_train(self, *world_size: Any) -> None:
        super()._setup_train(*world_size)
        loss_scale.skip_nothing(self.scaler, self.model.parameters())
        if self.scans:
            self.hooks.seen("labels")
        dataset = self.train_loader.dataset
        most = max((len(label["cls"]) for label in dataset.labels), default=0)
        self._label_envelope = most * label_factor(self.args, bool(dataset.rect))
        self.recorder.note(
            f"worst data: the densest training image has {most} labels; {self._label_envelope} allowed for after augmentation"
        )
        _say_facts(self.recorder, self, self._optimizer_asked, self.scans)
        self.recorder.fact(**{SAID_ACCUMULATION: self.plan.orders.accumulation, UPDATES: self.updates_in_all()})
        self._watch_validator()
        self._only_epoch = self.epochs == 1
        self._as_many_epochs_as_the_script_has()

    def _as_many_epochs_as_the_script_has(self) -> None:
        """Mosaic closes for the last of them where the run closes it on its way, and from the start where the run does."""
        scripted = len(self.train_loader.batch_sampler.epochs)
        self._close_mosaic_asked = self.args.close_mosaic
        if self.args.close_mosaic:
            self.args.close_mosaic = scripted if self.args.close_mosaic >= self.epochs else int(not self.plan.orders.resumes)
        self.epochs = scripted
        self.stopper.patience = math.inf

    def epoch_begins(self) -> None:
        super().epoch_begins()
        self.train_loader.batch_sampler.epoch = self.epoch
        self._micro_batch = 0
        if self.epoch == 0:
            self._phase(Phase.TRAIN)
        elif self.epoch == 1:
            self._phase(Phase.TRAIN_AGAIN)

    def optimizer_step(self) -> None:
        before = loss_scale.scale_of(self.scaler)
        super().optimizer_step()
        if loss_scale.skips(self.scaler, before):  # no step: the optimizer has no states yet
            self.recorder.note(loss_scale.SKIPPED)
            return
        self.recorder.stepped(self.optimizer)
        self.recorder.optimizer_step()

    def _batch_ended(self) -> None:
        self.recorder.batch(timed=self._whole)
        finite = bool(self.loss.isfinite().all())
        self.recorder.loss(finite=finite)
        if not finite:  # Ultralytics would go back to its last checkpoint three times, and then give up
            raise TrialDone

    def _phase(self, phase: Phase) -> None:
        if not self.plan.orders.resumes:  # all of it is that of going on
            self.recorder.phase(phase)

    def save_model(self) -> Any:
        """With the arguments that the run has."""
        scripted, self.args.close_mosaic = self.args.close_mosaic, self._close_mosaic_asked
        try:
            return super().save_model()
        finally:
            self.args.close_mosaic = scripted
            going_on.keep(self.last, self.plan.orders)

    # -- how a run ends

    def final_eval(self) -> None:
        """The best checkpoint is loaded beside everything else, fused and validated."""
        if self.recorder.report().phase != Phase.FINISH:  # else the figures of the last validation are still being drawn
            self._phase(Phase.FINISH)
        with _said(self.recorder, bool(self.args.plots)), self._gradients_held():
            super().final_eval()
        self.hooks.seen("end")

    def plot_metrics(self) -> None:
        with _said(self.recorder, bool(self.args.plots)):
            super().plot_metrics()

    def train(self) -> None:
        super().train()
        if yolo_ranks.RANK > 0:  # Ultralytics says only in rank 0 that it is over
            self._ended()

    def _ended(self) -> None:
        for loader in (self.train_loader, self.test_loader):
            if hasattr(loader, "close"):
                loader.close()
        raise TrialDone

    # -- validation

    def _watch_validator(self) -> None:
        validator, preprocess = self.validator, self.validator.preprocess
        worst_nms(self, self.recorder)
        whole_statistics(validator, self.hooks, ranks=self.plan.orders.world_size)
        self._kept: list[int] = []

        def watched(batch: Any) -> Any:
            batch = preprocess(batch)
            images, _, height, width = batch["img"].shape
            script = validator.dataloader.batch_sampler
            if isinstance(script, TrialBatches) and any(_same_images(batch, validator.dataloader.dataset, draw) for draw in script.now):
                self.hooks.seen("validation batches")
            self._whole = images >= self._expected["val"]
            if self.plan.val_batch and images == self._expected["val"]:
                images = self.plan.val_batch  # a validation set smaller than its batch alters nothing
            _observe_validation_input(self.recorder, images, max(height, width))
            return batch

        validator.preprocess = watched

    def _validation_batch_ended(self, validator: Any) -> None:
        if self._validated:
            self.recorder.sample()
            return
        self.recorder.batch(timed=self._whole)
        if self.device.type != "cuda":  # really gathered in full at the end (``whole_statistics``)
            return
        self._kept.append(kept_bytes())
        if len(self._kept) >= EQUALS:
            self.recorder.measured(growth_bytes_per_batch=growth_of(self._kept[-EQUALS:]))

    def validate(self) -> Any:
        if self._validated:
            return self._validate_at_the_end()
        if self.plan.orders.resumes and not going_on.needs_its_end(self.plan.orders):
            self.hooks.ends_with_training()
            self._ended()
        self._phase(Phase.VALIDATE)
        epochs = self.epochs
        self.epochs = 1 if self._only_epoch else epochs  # figures are drawn in the validation of a last epoch
        with self._gradients_held():
            result = super().validate()
        self.epochs = epochs
        self._validated = True
        if not self.plan.orders.steps_after:
            self.hooks.seen("end")
            self._ended()
        self._phase(Phase.SAVE)
        return result

    def _validate_at_the_end(self) -> Any:
        """The last epoch's validation draws figures, and the final one comes upon what they left."""
        if self.epoch < self.epochs - 1:
            return self.metrics and dict(self.metrics), self.fitness  # only rank 0 has metrics
        self._phase(Phase.FINISH)
        with self._gradients_held():
            return super().validate()

    @contextlib.contextmanager
    def _gradients_held(self) -> Iterator[None]:
        """An epoch of a run may end between two optimizer steps: Ultralytics counts on into the next one, and validates beside the
        gradients so far. A trial's may end after a step."""
        held = [one for one in self.model.parameters() if one.requires_grad and one.grad is None]
        for one in held if self.plan.orders.accumulation > 1 else ():
            one.grad = one.new_zeros(one.shape)
        try:
            yield
        finally:
            for one in held:
                one.grad = None


def trial(base: Any, plan: Plan, recorder: Recorder, scans: Sequence[Scan], hooks: Hooks) -> Any:
    """The trainer of this trial, upon the exact trainer ``base``. No "Trainer" in its name: no loggers."""
    on_cpu = (OverGloo,) if plan.orders.world_size > 1 and plan.orders.device == "cpu" else ()
    return type("Trial", (TrialTrainer, *on_cpu, base), {"plan": plan, "recorder": recorder, "scans": scans, "hooks": hooks})


def _only_the_persons(callbacks: MutableMapping[str, list[Any]]) -> None:
    """Ultralytics' own callbacks are its loggers: they are none of a trial's. What a script has added is part of its training."""
    for event, called in callbacks.items():
        callbacks[event] = [one for one in called if not str(getattr(one, "__module__", "")).startswith("ultralytics.")]


def _say_samples(recorder: Recorder, loader: Any, mode: str, asked: int) -> None:
    samples = len(loader.dataset)
    if mode == "train":
        recorder.measured(train_samples=samples)
    else:
        recorder.measured(validation_samples=samples, validation_batches_total=len(loader))
    if loader.batch_size != asked:
        recorder.note(f"{mode}: {samples} images are fewer than a batch of {asked}; Ultralytics runs batches of {loader.batch_size}")


def _same_images(batch: Mapping[str, Any], dataset: Any, draw: MicroBatch) -> bool:
    """Whether ``batch`` holds the images that were drawn. Mosaic and the like name the image they began with."""
    return [str(name) for name in batch["im_file"]] == [str(dataset.im_files[index]) for index in draw.images]


def _observe_input(recorder: Recorder, images: int, side: int, device: str) -> None:
    """The largest micro-batch and the largest side that came. A data set smaller than the micro-batch alters nothing: it is noted."""
    seen = recorder.observed
    recorder.observe(
        micro_batch=max(images, seen.get("micro_batch", 0)), largest_input=max(side, seen.get("largest_input", side)), device=device
    )


def _observe_validation_input(recorder: Recorder, images: int, side: int) -> None:
    """The largest validation batch and the largest side that came: the last batch of a data set may be smaller."""
    seen = recorder.observed
    recorder.observe(
        val_micro_batch=max(images, seen.get("val_micro_batch", 0)), largest_val_input=max(side, seen.get("largest_val_input", 0))
    )


def _say_facts(recorder: Recorder, trainer: Any, optimizer_asked: str, scans: Sequence[Scan]) -> None:
    groups = trainer.optimizer.param_groups
    recorder.observe(image_size=trainer.args.imgsz)
    recorder.fact(
        optimizer=type(trainer.optimizer).__name__,
        optimizer_was_auto=optimizer_asked.lower() == "auto",
        lr0=trainer.args.lr0,
        warmup_bias_lr=trainer.args.warmup_bias_lr,
        weight_decay_applied=max(group["weight_decay"] for group in groups),
        accumulation=trainer.accumulate,
        effective_batch=trainer.accumulate * trainer.batch_size,
        amp=bool(trainer.amp),
        max_det=trainer.args.max_det,
        parameters=sum(parameter.numel() for parameter in trainer.model.parameters()),
        images_ignored=sum(scan[3] for scan in scans),
        images_without_labels=sum(scan[1] + scan[2] for scan in scans),
    )


@contextlib.contextmanager
def _said(recorder: Recorder, plots: bool) -> Iterator[None]:
    try:
        yield
    except BaseException:
        figures = " and the figures; plots=False needs less memory" if plots else ""
        recorder.note(f"training and validation went through; what failed is the end of a run: the final validation{figures}")
        raise


def _with_loggers(trainer: Any) -> None:
    """Where the person has turned it on, TensorBoard's callbacks are in the trial: they write into the run's folder alone, and the graph
    that they trace holds memory (75 MiB of a run whose trial without it needed 309). Raises NotCovered for the others on a CPU, whose
    memory is the budget. As in a run, rank 0 alone has them."""
    from ultralytics.utils import RANK

    if RANK not in {-1, 0}:
        return
    found = _loggers()
    others = sorted(SETTINGS_OF.get(name, name) for name in found if name != "tensorboard")
    if others and trainer.device.type == "cpu":
        off = " ".join(f"{one}=False" for one in others)
        took = "on a CPU that takes memory of the budget, and a trial, which sends nothing, can't show how much"
        raise NotCovered(f"{', '.join(others)}: on in Ultralytics' settings; {took}. What turns it off: yolo settings {off}")
    for event, called in found.get("tensorboard", []):
        if event == BEGINS:
            called(trainer)
        else:
            trainer.callbacks[event].append(called)


def _loggers() -> dict[str, list[tuple[str, Any]]]:
    """Module of ``ultralytics.utils.callbacks`` -> (event, callback), as Ultralytics itself gives them to a run's trainer: those of what is
    installed and on."""
    from ultralytics.utils.callbacks import base

    stand_in = type("Trainer", (), {"callbacks": defaultdict(list)})()  # "Trainer" in its name is what asks for the loggers
    base.add_integration_callbacks(stand_in)
    found: dict[str, list[tuple[str, Any]]] = {}
    for event, called in stand_in.callbacks.items():
        for one in called:
            place, _, name = str(getattr(one, "__module__", "")).rpartition(".")
            if place == "ultralytics.utils.callbacks" and name not in NOT_LOGGERS:
                found.setdefault(name, []).append((event, one))
    return found


NOT_LOGGERS = frozenset({"base", "hub", "platform", "raytune"})
"""Ultralytics' own services, which hold the figures of an epoch, and Ray Tune's, which does nothing outside a session of Ray's."""
SETTINGS_OF = {"wb": "wandb"}
BEGINS = "on_pretrain_routine_start"
"""Ultralytics calls it while it makes a trainer, or soon after."""
