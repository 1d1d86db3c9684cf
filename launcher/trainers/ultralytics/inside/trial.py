"""Takes orders whose payload is a rung in Ultralytics' own words; runs a truncated, real training of it on the worst of the user's data.

Built on ``yolo_exact``'s trainers, so that what is proven here is what runs. The training loop, the loaders, the validator and the
optimizer are Ultralytics' own, checkpoint and final validation included; replaced are which images come (the densest, the largest
shapes), how many, and where things are written.
Where Ultralytics would hide a failure of memory or write into the user's folders, a comment here says what holds it off, and
the traps' own tests show it.

Payload: ``model`` (str), ``task`` (str or None), ``args`` (this rung's native arguments), ``checkpointing`` (bool),
``val_batch`` (int or None), ``asked_batch`` and ``asked_nbs`` (int), ``cache_dir`` (folder for label caches, shared by a run's
trials).
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.contract.orders import Orders
from launcher.contract.report import Phase
from launcher.trainers.ultralytics.environment import IMPORTS
from launcher.worker import budget
from launcher.worker.recorder import Recorder

COVERED = ("detect", "segment", "pose", "obb")

RELIED_UPON: Mapping[str, str] = {
    "ultralytics.engine.trainer:BaseTrainer.validate": "e56ca46cb1e38615",
    "ultralytics.engine.trainer:BaseTrainer.train": "b7f76d34d85c1c6f",
    "ultralytics.engine.trainer:BaseTrainer.save_model": "47f61ede98e6f12b",
    "ultralytics.engine.trainer:BaseTrainer.final_eval": "398e74e935f34789",
    "ultralytics.engine.trainer:BaseTrainer._handle_nan_recovery": "e465d82576a3bc80",
    "ultralytics.engine.validator:BaseValidator.__call__": "29da273b2118ebb6",
    "ultralytics.models.yolo.detect.val:DetectionValidator.postprocess": "0fcb34c909736510",
    "ultralytics.models.yolo.detect.val:DetectionValidator.update_metrics": "c8043746aafaa866",
    "ultralytics.data.build:InfiniteDataLoader": "7b232ee7c2d3e888",
    "ultralytics.data.build:_RepeatSampler": "2582f0c6ead5b2f2",
    "ultralytics.data.base:BaseDataset.set_rectangle": "f771615eb0dbde00",
    "ultralytics.data.dataset:YOLODataset.get_labels": "bd53038c16bfa12e",
    "ultralytics.data.dataset:YOLODataset._load_or_scan_cache": "f36510a1e2b307db",
    "ultralytics.data.utils:load_dataset_cache_file": "1c6cea96ce88f24d",
    "ultralytics.data.utils:save_dataset_cache_file": "ff400df7acf00376",
    "ultralytics.utils.tal:TaskAlignedAssigner.__init__": "a984e88a0e6039b2",
    "ultralytics.utils.tal:TaskAlignedAssigner.forward": "ef22692946368b14",
    "ultralytics.utils.nms:non_max_suppression": "51cdbaecdb0627c5",
    "ultralytics.utils.checks:check_font": "ccf9e94073e9904f",
    "ultralytics.utils.callbacks.base:add_integration_callbacks": "12935e9d4be7bfc7",
}
"""As ``yolo_exact.RELIED_UPON``, for what only the trial builds upon."""

ANCHORS_PER_OBJECT = 10
"""Anchors that Ultralytics' assigner trains for each object (``topk``): about what a half-trained model fires per object."""


class NotCovered(ValueError):
    """This trial cannot say anything true about such a run. The message says which, and what is covered."""


class TrialDone(BaseException):
    """Everything was seen. A BaseException, so that no handler of Ultralytics' or of a callback keeps the run going."""


def run(orders: Orders, recorder: Recorder) -> None:
    """The trial. Returns when it went through; raises whatever ended it."""
    for name in IMPORTS:
        importlib.import_module(name)
    from launcher.trainers.ultralytics.native import yolo_exact

    yolo_exact.check_ultralytics()
    yolo_exact.check_ultralytics(RELIED_UPON)
    plan = Plan.of(orders)
    recorder.budget(budget.take(orders))
    for complaint in budget.complaints(orders.device):
        recorder.note(complaint)
    recorder.phase(Phase.SETUP)
    yolo_exact.configure(
        yolo_exact.Settings(
            asked_batch=plan.asked_batch, asked_nbs=plan.asked_nbs, checkpointing=plan.checkpointing, val_batch=plan.val_batch
        )
    )
    scans = _keep_label_caches_away(plan.cache_folder)
    _no_downloads()
    _report_assigner_failures(recorder)
    _saving_fails_at_once()
    draws = _Draws(vary=plan.on_card)
    draws.install()

    from ultralytics import YOLO

    model = YOLO(plan.model, task=plan.task)
    _refuse_uncovered(model.task)
    trial = _trial_class(yolo_exact.trainer_for(model), plan, recorder, scans, draws)
    try:
        model.train(trainer=trial, **plan.arguments)
    except TrialDone:
        recorder.phase(Phase.DONE)
    else:
        raise RuntimeError("Ultralytics ended the training before the trial had seen its steps")


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The orders, read: what is asked of Ultralytics and how much of it."""

    model: str
    task: str | None
    arguments: dict[str, Any]
    """Native arguments of this rung, with everything that is written going to the trial's scratch folder."""
    user_arguments: dict[str, Any]
    checkpointing: bool
    val_batch: int | None
    asked_batch: int
    asked_nbs: int
    cache_folder: Path
    accumulation: int
    """Micro-batches per optimizer step here: min(the rung's, 2); the second micro-batch of the second step is the peak."""
    steps: int
    validation_batches: int
    steps_after: int
    on_card: bool = False
    halves: int = 0
    """Micro-batches of half the images at the end, where the driver may spill: what they take per image is held against whole ones."""

    @classmethod
    def of(cls, orders: Orders) -> Plan:
        payload = orders.payload
        asked_for = dict(payload["args"])
        accumulation = min(max(orders.accumulation, 1), 2)
        on_card = orders.device == "cuda"
        # On a card the sizes that a run draws break its memory into pieces: largest, small, odd and largest again, twice over.
        varied = orders.enough(len(SHAPES), accumulation=accumulation) if on_card and _sizes_vary(asked_for) else 1
        halves = HALVES if orders.may_spill and int(asked_for.get("batch", 1)) > 1 else 0
        run_folder = orders.scratch / "run"
        cache_folder = Path(payload["cache_dir"])
        cache_folder.mkdir(parents=True, exist_ok=True)
        quiet = {
            "save_dir": str(run_folder),
            "project": None,  # Ultralytics Platform uploads only with a project
            "name": None,
            "exist_ok": True,
            "plots": bool(asked_for.get("plots", True)),  # on a card too: the threads that draw hold on to batches
            "save": True,  # save=False still saves the last epoch; on a card, saving copies model and optimizer there
            "val": True,  # val=False still validates the last epoch
            "cache": False,
            "resume": False,
        }
        return cls(
            model=payload["model"],
            task=payload.get("task"),
            arguments={**asked_for, **quiet},
            user_arguments=asked_for,
            checkpointing=bool(payload.get("checkpointing", False)),
            val_batch=payload.get("val_batch"),
            asked_batch=payload["asked_batch"],
            asked_nbs=payload["asked_nbs"],
            cache_folder=cache_folder,
            accumulation=accumulation,
            steps=max(orders.steps, 2, varied),
            validation_batches=max(orders.validation_batches, len(SHAPES) + EQUALS - 1 if on_card else 2),
            steps_after=max(orders.steps_after, 1, varied),
            on_card=on_card,
            halves=halves,
        )

    @property
    def micro_batches(self) -> int:
        """Before validation: one epoch of the trial."""
        return self.steps * self.accumulation


SHAPES = ("largest", "small", "odd", "largest")
"""In which order a trial on a card meets shapes, where its run draws them: what is free after the first is in pieces for the others."""
EQUALS = 3
"""Validation batches alike, in a row, before what each keeps can be told from the noise of a card's allocator."""
HALVES = 2
"""The first warms up."""


def _sizes_vary(args: Mapping[str, Any]) -> bool:
    return bool(args.get("multi_scale")) or bool(args.get("rect"))


def _refuse_uncovered(task: str) -> None:
    if task not in COVERED:
        raise NotCovered(f"a trial of task {task!r} is not covered: its data has another shape. Covered: {', '.join(COVERED)}")


# ----------------------------------------------------------------------------------------------------------------------
# Ultralytics, kept from writing, asking and hiding


def _module(name: str) -> Any:
    """A module of Ultralytics', open to be changed."""
    return importlib.import_module(name)


def _keep_label_caches_away(folder: Path) -> list[tuple[int, int, int, int, int]]:
    """Label caches are read from ours or the user's, written only to ours. Returns a list that fills with the scans' results.

    A scan's result is (found, missing, empty, corrupt, total) images.
    """
    dataset = _module("ultralytics.data.dataset")
    load, save = dataset.load_dataset_cache_file, dataset.save_dataset_cache_file
    scans: list[tuple[int, int, int, int, int]] = []

    def ours(path: Path) -> Path:
        return folder / f"{path.stem}-{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}.cache"

    def load_ours(path: Path) -> Any:
        path = Path(path)
        cache = load(ours(path)) if ours(path).exists() else load(path)
        scans.append(tuple(cache["results"]))
        return cache

    def save_ours(prefix: str, path: Path, x: Any, version: str) -> None:
        scans.append(tuple(x["results"]))
        save(prefix, ours(Path(path)), x, version)

    dataset.load_dataset_cache_file, dataset.save_dataset_cache_file = load_ours, save_ours
    return scans


def _no_downloads() -> None:
    """``YOLO_OFFLINE`` still lets files be fetched; a trial fetches nothing."""

    def refuse(url: str, *_: Any, **__: Any) -> None:
        raise ConnectionError(f"a trial downloads nothing, and this was asked for: {url}. Fetch it once beforehand, or give its path")

    _module("ultralytics.utils.downloads").safe_download = refuse
    _module("ultralytics.data.utils").safe_download = refuse
    _module("ultralytics.utils.checks").check_pip_update_available = lambda: False


def _report_assigner_failures(recorder: Recorder) -> None:
    """The label assigner survives running out of memory, image by image and hundreds of times slower."""
    assigner = _module("ultralytics.utils.tal").TaskAlignedAssigner

    def get(self: Any) -> bool:
        return bool(self.__dict__.get("_oom_warned", False))

    def set_(self: Any, value: bool) -> None:
        self.__dict__["_oom_warned"] = value
        if value:
            recorder.swallowed(
                f"{type(self).__name__} ran out of memory (batch {self.bs}, {self.n_max_boxes} boxes) and went on image by image"
            )

    assigner._oom_warned = property(get, set_)


def _saving_fails_at_once() -> None:
    """Ultralytics tries ``torch.save`` again after any RuntimeError, on a buffer that the first failure closed: an out-of-memory
    error would end as "ValueError: I/O operation on closed file" (seen under a CPU budget)."""
    patches = _module("ultralytics.utils.patches")
    _module("torch").save = patches._torch_save


class _Draws:
    """multi_scale draws the size of each micro-batch by ``random.randrange(least, most + 1)``. The trial draws the largest; on a card
    ``SHAPES``, one after the other, from the start again after validation."""

    def __init__(self, *, vary: bool) -> None:
        self._vary = vary
        self._drawn = 0

    def install(self) -> None:
        _module("ultralytics.models.yolo.detect.train").random = types.SimpleNamespace(randrange=self.randrange)

    def restart(self) -> None:
        self._drawn = 0

    def randrange(self, least: int, past: int) -> int:
        shape = SHAPES[self._drawn % len(SHAPES)] if self._vary else "largest"
        self._drawn += 1
        return {"largest": past - 1, "small": least, "odd": least + (past - 1 - least) * 3 // 5}[shape]


# ----------------------------------------------------------------------------------------------------------------------
# The worst of the data


def densest(labels: Sequence[int], size: int) -> list[int]:
    """Indices of the ``size`` images with most labels; repeated where there are fewer images."""
    order = sorted(range(len(labels)), key=lambda i: -labels[i])
    return (order * math.ceil(size / len(order)))[:size]


def largest_groups(group_of: Sequence[int], areas: Sequence[int], labels: Sequence[int], wanted: int) -> list[list[int]]:
    """``wanted`` batches of rectangular data, which share a shape per batch: most pixels first; the densest image is in one of them.

    ``group_of``: batch number per image; ``areas``: pixels per image of each batch. Batches repeat where there are fewer.
    """
    groups: dict[int, list[int]] = {}
    for image, group in enumerate(group_of):
        groups.setdefault(int(group), []).append(image)
    order = sorted(groups, key=lambda g: (-len(groups[g]) * areas[g], -max(labels[i] for i in groups[g])))
    chosen = (order * math.ceil(wanted / len(order)))[:wanted]
    dense = int(group_of[max(range(len(labels)), key=lambda i: labels[i])])
    if dense not in chosen:
        chosen[-1] = dense
    return [groups[g] for g in chosen]


def varied_groups(group_of: Sequence[int], areas: Sequence[int], labels: Sequence[int], wanted: int) -> list[list[int]]:
    """As ``largest_groups``, in the order of ``SHAPES`` and then the largest to the end; odd is the one with the densest image."""
    sizes = largest_groups(group_of, areas, labels, len(set(group_of)))
    dense = max(range(len(labels)), key=lambda i: labels[i])
    odd = next((group for group in sizes if dense in group), sizes[0])
    chosen = {"largest": sizes[0], "small": min(sizes, key=lambda group: areas[int(group_of[group[0]])]), "odd": odd}
    return [chosen[shape] for shape in (*SHAPES, *("largest",) * wanted)][:wanted]


def worst_batches(loader: Any, wanted: int, *, vary: bool = False) -> list[list[int]]:
    """Index lists of ``wanted`` batches for ``loader``: rectangular data keeps its shapes, other data comes densest first."""
    dataset = loader.dataset
    labels = [len(label["cls"]) for label in dataset.labels]
    if getattr(dataset, "rect", False):
        areas = [int(shape[0]) * int(shape[1]) for shape in dataset.batch_shapes]
        return (varied_groups if vary else largest_groups)(dataset.batch, areas, labels, wanted)
    return [densest(labels, loader.batch_size)] * wanted


def label_factor(args: Any, rect: bool) -> int:
    """How many times the densest image's labels one training image can come to hold.

    Mosaic joins 4 images; mixup and cutmix join two of those; copy_paste (segments) doubles. rect turns them all off.
    """
    if rect:
        return 1
    joins = 4 if args.mosaic > 0 else 1
    joins *= 2 if args.mixup > 0 or args.cutmix > 0 else 1
    return joins * (2 if args.copy_paste > 0 and args.task == "segment" else 1)


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


def first_half(batch: dict[str, Any], overlap_masks: bool) -> dict[str, Any]:
    """The batch without the second half of its images."""
    images = len(batch["img"]) // 2
    kept = batch["batch_idx"] < images
    per_label = ("batch_idx", "cls", "bboxes", "keypoints", *(() if overlap_masks else ("masks",)))
    per_image = ("img", *(("masks",) if overlap_masks else ()))
    cut = {key: batch[key][kept] for key in per_label if key in batch}
    return {**batch, **cut, **{key: batch[key][:images] for key in per_image if key in batch}}


# ----------------------------------------------------------------------------------------------------------------------
# The truncated trainer


def _trial_class(
    base: Any, plan: Plan, recorder: Recorder, scans: Sequence[tuple[int, int, int, int, int]], draws: _Draws | None = None
) -> Any:
    """A trainer that trains ``plan.micro_batches``, validates, trains again and stops. No "Trainer" in its name: no loggers."""

    class Trial(base):  # type: ignore[misc]
        _steps = 0
        _validated = False
        _ending = False
        _halves_left: int | None = None

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._expected: dict[str, int] = {}
            super().__init__(*args, **kwargs)
            self._optimizer_asked = str(self.args.optimizer)
            self.callbacks.clear()
            self.callbacks["on_train_batch_end"].append(Trial._batch_ended)
            self.callbacks["on_val_batch_end"].append(self._validation_batch_ended)

        # -- the worst data

        def get_dataloader(self, dataset_path: Any, batch_size: int = 16, rank: int = 0, mode: str = "train") -> Any:
            loader = super().get_dataloader(dataset_path, batch_size=batch_size, rank=rank, mode=mode)
            asked = batch_size if mode == "train" else plan.val_batch or batch_size
            _say_samples(recorder, loader, mode, asked)
            self._expected[mode] = min(asked, len(loader.dataset))
            wanted = plan.micro_batches if mode == "train" else plan.validation_batches
            sampler = _module("ultralytics.data.build")._RepeatSampler(worst_batches(loader, wanted, vary=plan.on_card))
            object.__setattr__(loader, "batch_sampler", sampler)  # DataLoader forbids a plain assignment
            return loader

        def preprocess_batch(self, batch: Any) -> Any:
            batch = super().preprocess_batch(batch)
            pad_labels(batch, self._label_envelope, self.args.overlap_mask)
            height, width = batch["img"].shape[-2:]
            images = int(plan.arguments["batch"]) if len(batch["img"]) == self._expected["train"] else len(batch["img"])
            _observe_input(recorder, images, max(height, width), batch["img"].device.type)
            return batch if self._halves_left is None else first_half(batch, self.args.overlap_mask)

        # -- how much of it

        def _accumulation(self) -> int:
            """The real, exact accumulation outside the loop; the trial's own inside it."""
            return plan.accumulation if self._begun is not None else int(super()._accumulation())

        def _setup_train(self) -> None:
            super()._setup_train()
            dataset = self.train_loader.dataset
            most = max((len(label["cls"]) for label in dataset.labels), default=0)
            self._label_envelope = most * label_factor(self.args, bool(dataset.rect))
            recorder.note(
                f"worst data: the densest training image has {most} labels; {self._label_envelope} allowed for after augmentation"
            )
            _say_facts(recorder, self, self._optimizer_asked, scans)
            if plan.user_arguments.get("cache"):
                recorder.note("cache= is off in the trial: cached images take host memory in the full run, which was not measured")
            self._watch_validator()
            self._make_room_for_training_after_validation()

        def _make_room_for_training_after_validation(self) -> None:
            epochs = 2 + math.ceil((plan.steps_after * plan.accumulation + plan.halves) / plan.micro_batches)
            more = max(0, epochs - self.epochs)
            self.epochs += more
            if self.args.close_mosaic:
                self.args.close_mosaic += more  # mosaic still closes in the epoch in which the real run closes it

        def _model_train(self) -> None:
            super()._model_train()
            if not self._steps:
                recorder.phase(Phase.TRAIN)

        def optimizer_step(self) -> None:
            super().optimizer_step()
            self._steps += 1
            recorder.optimizer_step()

        def _batch_ended(self) -> None:
            recorder.batch()
            recorder.loss(finite=bool(self.loss.isfinite().all()))
            if self._halves_left:
                self._halves_left -= 1
            elif self._halves_left is None and self._steps >= plan.steps + plan.steps_after and plan.halves:
                self._halves_left = plan.halves
                recorder.halves_begin()
                if draws is not None:
                    draws.restart()
            if not self._halves_left and self._steps >= plan.steps + plan.steps_after:
                self._finish()

        def _finish(self) -> None:
            """As a run ends: the best checkpoint is loaded beside everything else and validated; then the figures."""
            self._ending = True
            recorder.phase(Phase.FINISH)
            try:
                self.final_eval()
                if self.args.plots:
                    self.plot_metrics()
            except BaseException:
                figures = " and the figures; plots=False needs less memory" if self.args.plots else ""
                recorder.note(f"training and validation went through; what failed is the end of a run: the final validation{figures}")
                raise
            for loader in (self.train_loader, self.test_loader):
                loader.close()
            raise TrialDone

        # -- validation

        def _watch_validator(self) -> None:
            validator, preprocess = self.validator, self.validator.preprocess
            _worst_nms(self, recorder)
            self._kept: list[int] = []

            def watched(batch: Any) -> Any:
                batch = preprocess(batch)
                images, _, height, width = batch["img"].shape
                if plan.val_batch and images == self._expected["val"]:
                    images = plan.val_batch  # a validation set smaller than its batch alters nothing
                _observe_validation_input(recorder, images, max(height, width))
                return batch

            validator.preprocess = watched

        def _validation_batch_ended(self, validator: Any) -> None:
            if self._ending:
                recorder.sample()
                return
            recorder.batch()
            self._kept.append(_kept_bytes(validator, self.device.type))
            if (growth := growth_of(self._kept, on_card=plan.on_card)) is not None:
                recorder.measured(growth_bytes_per_batch=growth)

        def validate(self) -> Any:
            if self._validated:  # the trial's second epoch may end before its last step
                return dict(self.metrics), self.fitness
            recorder.phase(Phase.VALIDATE)
            result = super().validate()
            self._validated = True
            if draws is not None:
                draws.restart()
            recorder.phase(Phase.TRAIN_AGAIN)
            return result

    return Trial


def _say_samples(recorder: Recorder, loader: Any, mode: str, asked: int) -> None:
    samples = len(loader.dataset)
    if mode == "train":
        recorder.measured(train_samples=samples)
    else:
        recorder.measured(validation_samples=samples, validation_batches_total=len(loader))
    if loader.batch_size != asked:
        recorder.note(f"{mode}: {samples} images are fewer than a batch of {asked}; Ultralytics runs batches of {loader.batch_size}")


def _observe_input(recorder: Recorder, images: int, side: int, device: str) -> None:
    """The smallest micro-batch and the largest side that came. A data set smaller than the micro-batch alters nothing: it is noted."""
    seen = recorder.observed
    recorder.observe(
        micro_batch=min(images, seen.get("micro_batch", images)), largest_input=max(side, seen.get("largest_input", side)), device=device
    )


def _observe_validation_input(recorder: Recorder, images: int, side: int) -> None:
    """The largest validation batch and the largest side that came: the last batch of a data set may be smaller."""
    seen = recorder.observed
    recorder.observe(
        val_micro_batch=max(images, seen.get("val_micro_batch", 0)), largest_val_input=max(side, seen.get("largest_val_input", 0))
    )


def _say_facts(recorder: Recorder, trainer: Any, optimizer_asked: str, scans: Sequence[tuple[int, int, int, int, int]]) -> None:
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


def growth_of(kept: Sequence[int], *, on_card: bool) -> float | None:
    """Bytes that each validation batch keeps for good; None where too few were seen.

    ``kept``: what is held after each batch. On a card that is live memory, which goes up and down by itself: only the last batches,
    which are alike (``EQUALS``), count, and only where every one of them added something.
    """
    if not on_card:
        return max(0.0, (kept[-1] - kept[0]) / (len(kept) - 1)) if len(kept) > 1 else None
    if len(kept) < EQUALS:
        return None
    last = kept[-EQUALS:]
    return float(max(0, min(after - before for before, after in itertools.pairwise(last))))


def _kept_bytes(validator: Any, device: str) -> int:
    """What validation holds on to until its end: on the device (CUDA), or in its accumulators (CPU)."""
    if device == "cuda":
        import torch

        return int(torch.cuda.memory_allocated())
    arrays = (array for column in validator.metrics.stats.values() for array in column)
    return sum(int(array.nbytes) for array in arrays) + 512 * len(validator.jdict)


def _worst_nms(trainer: Any, recorder: Recorder) -> None:
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
        validator.postprocess = _passing(boxes, validator)
        recorder.note(
            f"non-maximum suppression of oriented boxes saw {boxes} boxes per image: {ANCHORS_PER_OBJECT} per object of the densest"
        )


def _passing(boxes: int, validator: Any) -> Callable[[Any], Any]:
    """The validator's own ``postprocess`` at the confidence that lets about ``boxes`` boxes of every image through."""
    postprocess = validator.postprocess

    def at_that_confidence(predictions: Any) -> Any:
        found = predictions[0] if isinstance(predictions, list | tuple) else predictions
        if not validator.end2end:
            scores = found[:, 4 : 4 + validator.nc].flatten(1)
            kth = scores.kthvalue(max(1, scores.shape[1] - boxes), dim=1).values
            validator.args.conf = float(kth.min().clamp(0, 1))
        return postprocess(predictions)

    return at_that_confidence
