"""Takes orders whose payload is a rung in Ultralytics' own words; runs a truncated, real training of it on the worst of the user's data.

Built on ``yolo_exact``'s trainers, so that what is proven here is what runs. The training loop, the loaders, the validator and the
optimizer are Ultralytics' own, and so is a run's end: mosaic closed, checkpoints saved and loaded, the fused model validated, figures
drawn. Replaced are which images come and in which shapes (``worst``), how many, and where things are written; the metrics are worked
out of as many predictions as the whole validation set gives. What becomes of each argument stands in ``treatment``.
Where Ultralytics would hide a failure of memory or write into the user's folders, a comment here says what holds it off, and
the traps' own tests show it.

Payload: ``model`` (str), ``task`` (str or None), ``args`` (this rung's native arguments), ``checkpointing`` (bool),
``val_batch`` (int or None), ``asked_batch`` and ``asked_nbs`` (int), ``cache_dir`` (folder for label caches, shared by a run's
trials).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import itertools
import math
import random
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.shared.orders import Orders
from launcher.shared.report import SAID_ACCUMULATION, UPDATES, Phase
from launcher.trainers.ultralytics.arguments import saved_in
from launcher.trainers.ultralytics.environment import IMPORTS
from launcher.trainers.ultralytics.images import cached_bytes
from launcher.trainers.ultralytics.inside import worst
from launcher.trainers.ultralytics.inside.worst import Draw, Script, label_factor, pad_labels
from launcher.worker import budget
from launcher.worker.recorder import Recorder

COVERED = ("detect", "segment", "pose", "obb")

RELIED_UPON: Mapping[str, str] = {
    "ultralytics.engine.trainer:BaseTrainer.validate": "e56ca46cb1e38615",
    "ultralytics.engine.trainer:BaseTrainer.plot_metrics": "046604f9dfb25d8a",
    "ultralytics.data.base:BaseDataset.load_image": "088d1a203d122cdd",
    "ultralytics.data.base:BaseDataset.cache_images": "becfffb95f7db35e",
    "ultralytics.models.yolo.detect.val:DetectionValidator.get_stats": "ad64420cbd7cae7f",
    "ultralytics.utils.plotting:plot_images": "8e5f6489bd520fc9",
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
    "ultralytics.utils.tal:TaskAlignedAssigner._forward": "797909e9d693455a",
    "ultralytics.utils.tal:TaskAlignedAssigner.forward": "ef22692946368b14",
    "ultralytics.utils.nms:non_max_suppression": "51cdbaecdb0627c5",
    "ultralytics.utils.checks:check_font": "ccf9e94073e9904f",
    "ultralytics.utils.callbacks.base:add_integration_callbacks": "12935e9d4be7bfc7",
}
"""As ``yolo_exact.RELIED_UPON``, for what only the trial builds upon."""

SHOWN = 5
"""Corrupt images that are named one by one."""

LONGEST_FIGURE_S = 60.0

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
    recorder.budget(budget.take(orders))  # where the run takes it: what is read or imported from here on is its own need, too
    from launcher.trainers.ultralytics.native import yolo_exact

    yolo_exact.check_ultralytics()
    plan = Plan.of(orders)
    if said := yolo_exact.untried({**yolo_exact.RELIED_UPON, **RELIED_UPON}):
        recorder.note(said)
    for complaint in budget.complaints(orders.device):
        recorder.note(complaint)
    recorder.phase(Phase.SETUP)
    yolo_exact.configure(
        yolo_exact.Settings(
            asked_batch=plan.asked_batch, asked_nbs=plan.asked_nbs, checkpointing=plan.checkpointing, val_batch=plan.val_batch
        )
    )
    scans = _keep_label_caches_away(plan.cache_folder, recorder)
    _no_downloads()
    _report_assigner_failures(recorder)
    _saving_fails_at_once()

    from ultralytics import YOLO

    model = YOLO(plan.model, task=plan.task)
    _refuse_uncovered(model.task)
    hooks = Hooks()
    trial = _trial_class(yolo_exact.trainer_for(model), plan, recorder, scans, hooks)
    try:
        model.train(trainer=trial, **plan.arguments)
    except TrialDone:
        finite = recorder.report().loss_finite is not False
        if finite and (unseen := hooks.unseen(recorder.observed)):
            recorder.hint(unseen)  # without the last phase the verdict is "vacuous", and these are its words
        else:
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
    run_folder: Path
    checkpointing: bool
    val_batch: int | None
    asked_batch: int
    asked_nbs: int
    cache_folder: Path
    accumulation: int
    """Micro-batches per optimizer step here: min(the rung's, 2); the second micro-batch of the second step is the peak."""
    real_accumulation: int
    """The rung's."""
    steps: int
    validation_batches: int
    steps_after: int
    halves: int = 0
    """Micro-batches of half the images at the end, where the driver may spill: what they take per image is held against whole ones."""

    @classmethod
    def of(cls, orders: Orders) -> Plan:
        payload = orders.payload
        asked_for = dict(payload["args"])
        run_folder = orders.scratch / "run"
        cache_folder = Path(payload["cache_dir"])
        cache_folder.mkdir(parents=True, exist_ok=True)
        quiet = {
            "project": None,  # Ultralytics Platform uploads only with a project
            "name": None,
            "exist_ok": True,
            **saved_in(run_folder),
            "save": True,  # save=False still saves the last epoch; on a card, saving copies model and optimizer there
            "val": True,  # val=False still validates the last epoch
            "cache": False,  # would write .npy files beside the images; what it holds in memory is held by a ballast
            "resume": False,
        }
        return cls(
            model=payload["model"],
            task=payload.get("task"),
            arguments={**asked_for, **quiet},
            user_arguments=asked_for,
            run_folder=run_folder,
            checkpointing=bool(payload.get("checkpointing", False)),
            val_batch=payload.get("val_batch"),
            asked_batch=payload["asked_batch"],
            asked_nbs=payload["asked_nbs"],
            cache_folder=cache_folder,
            accumulation=min(max(orders.accumulation, 1), 2),
            real_accumulation=orders.accumulation,
            steps=max(orders.steps, 2),
            validation_batches=max(orders.validation_batches, MOST_SHAPES + EQUALS if orders.device == "cuda" else 2),
            steps_after=max(orders.steps_after, 1),
            halves=HALVES if orders.may_spill and int(asked_for.get("batch", 1)) > 1 else 0,
        )


MOST_SHAPES = 4
"""Validation batches of a trial on a card before the largest comes again: the largest, the densest, a small and an odd one."""
EQUALS = 3
"""Validation batches alike, in a row, before what each keeps can be told from the noise of a card's allocator."""
HALVES = 2
"""The first warms up."""


def _refuse_uncovered(task: str) -> None:
    if task not in COVERED:
        raise NotCovered(f"a trial of task {task!r} is not covered: its data has another shape. Covered: {', '.join(COVERED)}")


# ----------------------------------------------------------------------------------------------------------------------
# Ultralytics, kept from writing, asking and hiding


def _module(name: str) -> Any:
    """A module of Ultralytics', open to be changed."""
    return importlib.import_module(name)


def _keep_label_caches_away(folder: Path, recorder: Recorder) -> list[tuple[int, int, int, int, int]]:
    """Label caches are read from ours or the user's, written only to ours. Returns a list that fills with the scans' results.

    A scan's result is (found, missing, empty, corrupt, total) images. What it ignores is noted, in Ultralytics' own words.
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
        _note_ignored(cache.get("msgs", ()), recorder)
        return cache

    def save_ours(prefix: str, path: Path, x: Any, version: str) -> None:
        scans.append(tuple(x["results"]))
        _note_ignored(x.get("msgs", ()), recorder)
        save(prefix, ours(Path(path)), x, version)

    dataset.load_dataset_cache_file, dataset.save_dataset_cache_file = load_ours, save_ours
    return scans


def _note_ignored(said: Sequence[str], recorder: Recorder) -> None:
    """Images and labels that the run will do without, by name."""
    ignored = [line for line in said if "ignoring corrupt" in line]
    for line in ignored[:SHOWN]:
        recorder.note(re.sub(r"\x1b\[[\d;]*m", "", line).strip())
    if len(ignored) > SHOWN:
        recorder.note(f"... and {len(ignored) - SHOWN} more images that are ignored as corrupt")


def _no_downloads() -> None:
    """``YOLO_OFFLINE`` still lets files be fetched; a trial fetches nothing."""

    def refuse(url: str, *_: Any, **__: Any) -> None:
        raise ConnectionError(f"a trial downloads nothing, and this was asked for: {url}. Fetch it once beforehand, or give its path")

    _module("ultralytics.utils.downloads").safe_download = refuse
    _module("ultralytics.data.utils").safe_download = refuse
    _module("ultralytics.utils.checks").check_pip_update_available = lambda: False


def _report_assigner_failures(recorder: Recorder) -> None:
    """The label assigner survives running out of memory, on the CPU or image by image, and hundreds of times slower.

    What it tries again is ``_forward``; versions that have none (8.3.0) don't survive it.
    """
    assigner = _module("ultralytics.utils.tal").TaskAlignedAssigner
    assign = getattr(assigner, "_forward", None)
    if assign is None:
        return

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return assign(self, *args, **kwargs)
        except RuntimeError as error:
            if "out of memory" in str(error).lower():
                recorder.swallowed(f"{type(self).__name__} ran out of memory (batch {self.bs}, {self.n_max_boxes} boxes) and went on")
            raise

    assigner._forward = watched


def _saving_fails_at_once() -> None:
    """Ultralytics tries ``torch.save`` again after any RuntimeError, on a buffer that the first failure closed: an out-of-memory
    error would end as "ValueError: I/O operation on closed file" (seen under a CPU budget)."""
    patches, torch = _module("ultralytics.utils.patches"), _module("torch")
    plain = getattr(patches, "_torch_save", torch.save)

    def save(*args: Any, use_dill: bool = False, **kwargs: Any) -> None:  # a word of Ultralytics' own, in 8.3.0
        plain(*args, **kwargs)

    torch.save = save


class _Sizes:
    """multi_scale draws the size of each micro-batch by ``random.randrange(least, most + 1)``; the trial says which it gets.

    In 8.4.0 it is the part of micro-batches whose size is drawn at all (``random.random() < multi_scale``): here each. Whatever else a
    version asks of chance it gets.
    """

    def __init__(self) -> None:
        self.wanted: int | None = None
        """None: the largest."""
        _module("ultralytics.models.yolo.detect.train").random = self

    def randrange(self, least: int, past: int) -> int:
        return past - 1 if self.wanted is None else min(max(self.wanted, least), past - 1)

    def random(self) -> float:
        return 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(random, name)


class _Figures:
    """A figure is drawn in a thread of its own, which keeps its batch alive until it is done: for seconds, while the run goes on.

    How many are alive at once is luck (a run was seen two threads' stacks of 8 MiB above a trial that left it to luck). Here every
    thread and its batch stay until the phase ends, so that the trial has all of them at once.
    """

    def __init__(self) -> None:
        self._drawn: list[threading.Event] = []
        self._over = threading.Event()
        for name in (f"{task}.{part}" for task in COVERED for part in ("train", "val")):
            module = _module(f"ultralytics.models.yolo.{name}")
            if hasattr(module, "plot_images"):
                module.plot_images = self._staying(module.plot_images)

    def _staying(self, draw: Callable[..., Any]) -> Callable[..., Any]:
        def plot_images(*args: Any, **kwargs: Any) -> threading.Thread:
            drawn, over = threading.Event(), self._over

            def stay() -> None:
                try:
                    draw(*args, **kwargs, threaded=False)
                finally:
                    drawn.set()
                    over.wait()

            thread = threading.Thread(target=stay, daemon=True)
            thread.start()
            self._drawn.append(drawn)
            return thread

        return plot_images

    def let_go(self) -> None:
        """The phase is over."""
        self._over.set()
        self._over = threading.Event()

    def wait(self) -> None:
        """Until all have been drawn: what they need counts."""
        for drawn in self._drawn:
            drawn.wait(timeout=LONGEST_FIGURE_S)


class Hooks:
    """What a trial puts into Ultralytics, and whether it was really called. One that never was makes the trial prove nothing."""

    NEEDED: Mapping[str, str] = {
        "training batches": "the training loader took its batches from elsewhere than the trial's script (DataLoader.batch_sampler)",
        "validation batches": "the validation loader took its batches from elsewhere than the trial's script (DataLoader.batch_sampler)",
        "labels": "the data set's labels went past the trial's own cache (ultralytics.data.dataset: load_ and save_dataset_cache_file)",
        "statistics": "the metrics went past the trial (validator.get_stats, validator.metrics.stats)",
        "end": "the run ended without the final validation of its checkpoint (BaseTrainer.final_eval)",
    }

    OBSERVED = ("micro_batch", "image_size", "device", "largest_val_input")
    """What a trial has always seen by its end."""

    def __init__(self) -> None:
        self._seen: dict[str, bool] = {}

    def seen(self, name: str, as_wanted: bool = True) -> None:
        """Something was called; whether it was as the trial wants it. Once otherwise is enough."""
        self._seen[name] = as_wanted and self._seen.get(name, True)

    def unseen(self, observed: Mapping[str, Any]) -> str:
        """What did not happen, in words, or an empty string."""
        missing = [words for name, words in self.NEEDED.items() if not self._seen.get(name)]
        missing += [f"{wheel} was never seen" for wheel in self.OBSERVED if wheel not in observed]
        return f"this Ultralytics works otherwise than the trial knows it: {'; '.join(missing)}" if missing else ""


# ----------------------------------------------------------------------------------------------------------------------
# The truncated trainer


def _trial_class(base: Any, plan: Plan, recorder: Recorder, scans: Sequence[tuple[int, int, int, int, int]], hooks: Hooks) -> Any:
    """A trainer that trains what its script says, validates, trains again and ends as a run does. No "Trainer" in its name: no loggers."""

    class Trial(base):  # type: ignore[misc]
        epochs: int
        _validated = False
        _whole = True
        """Whether the batch under way has all its images; one that hasn't tells nothing of the run's pace."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._expected: dict[str, int] = {}
            self._sizes, self._figures = _Sizes(), _Figures()
            self._ballast: list[Any] = []
            self._micro_batch = 0
            super().__init__(*args, **kwargs)
            if Path(self.save_dir).resolve() != plan.run_folder.resolve():
                raise NotCovered(f"Ultralytics writes into {self.save_dir} instead of the folder it was given; nothing was trained there")
            self._optimizer_asked = str(self.args.optimizer)
            self.callbacks.clear()
            self.callbacks["on_train_batch_end"].append(Trial._batch_ended)
            self.callbacks["on_val_batch_end"].append(self._validation_batch_ended)
            self.callbacks["on_train_end"].append(Trial._ended)

        # -- the worst data

        def get_dataloader(self, dataset_path: Any, batch_size: int = 16, rank: int = 0, mode: str = "train") -> Any:
            loader = super().get_dataloader(dataset_path, batch_size=batch_size, rank=rank, mode=mode)
            asked = batch_size if mode == "train" else plan.val_batch or batch_size
            _say_samples(recorder, loader, mode, asked)
            self._expected.setdefault(mode, min(asked, len(loader.dataset)))
            if plan.user_arguments.get("cache") in (True, "ram") and self.device.type == "cpu":
                self._ballast.append(_ballast(loader.dataset, self.args.imgsz, recorder, mode))
            script = self._training_script(loader) if mode == "train" else self._validation_script(loader)
            object.__setattr__(loader, "batch_sampler", script)  # DataLoader forbids a plain assignment
            if getattr(loader, "iterator", None) is not None:  # made with the loader (before 8.4.150): it has the old sampler
                loader.reset()
            return loader

        def _training_script(self, loader: Any) -> Script:
            multi_scale = 0.5 if self.args.multi_scale is True else self.args.multi_scale  # a flag in 8.3: from half to one and a half
            sizes = worst.drawn_sizes(self.args.imgsz, multi_scale, self.stride) if multi_scale else None
            epochs = worst.training(
                worst.shapes_of(loader, sizes, last_kept=not loader.drop_last),
                dense=worst.dense_draw(loader, sizes[-1] if sizes else None),
                steps=plan.steps,
                steps_after=plan.steps_after,
                accumulation=plan.accumulation,
                closes=0 < self.args.close_mosaic < self.epochs,
            )
            return Script(*_with_halves(epochs, plan.halves))

        def _validation_script(self, loader: Any) -> Script:
            shapes, dense = worst.shapes_of(loader), worst.dense_draw(loader, None)
            return Script(worst.validation(shapes, dense=dense, least=plan.validation_batches, total=len(loader)))

        def preprocess_batch(self, batch: Any) -> Any:
            script = self.train_loader.batch_sampler.now
            draw = script[min(self._micro_batch, len(script) - 1)]
            hooks.seen("training batches", _same_images(batch, self.train_loader.dataset, draw))
            self._micro_batch += 1
            if plan.halves and self._micro_batch == len(script) - plan.halves + 1 and self._last_epoch():
                recorder.halves_begin()
            self._sizes.wanted = draw.size
            batch = super().preprocess_batch(batch)
            self._whole = len(batch["img"]) >= self._expected["train"]
            pad_labels(batch, self._label_envelope, self.args.overlap_mask)
            height, width = batch["img"].shape[-2:]
            images = int(plan.arguments["batch"]) if self._whole else len(batch["img"])
            _observe_input(recorder, images, max(height, width), batch["img"].device.type)
            return batch

        def _last_epoch(self) -> bool:
            """Whether whole micro-batches are over: those of half the images end the last epoch."""
            return bool(self.epoch >= self.epochs - 1)

        # -- how much of it

        def _accumulation(self) -> int:
            """The real, exact accumulation outside the loop; the trial's own inside it."""
            return plan.accumulation if self._begun is not None else int(super()._accumulation())

        def _setup_train(self, *world_size: Any) -> None:
            super()._setup_train(*world_size)
            if scans:
                hooks.seen("labels")
            dataset = self.train_loader.dataset
            most = max((len(label["cls"]) for label in dataset.labels), default=0)
            self._label_envelope = most * label_factor(self.args, bool(dataset.rect))
            recorder.note(
                f"worst data: the densest training image has {most} labels; {self._label_envelope} allowed for after augmentation"
            )
            _say_facts(recorder, self, self._optimizer_asked, scans)
            recorder.fact(**{SAID_ACCUMULATION: plan.real_accumulation, UPDATES: self.updates_in_all()})
            self._watch_validator()
            if self.device.type == "cpu" and not self._ballast:
                _fill_mosaic_buffer(dataset, self.train_loader.batch_sampler.now[0])
            self._only_epoch = self.epochs == 1
            self._as_many_epochs_as_the_script_has()

        def _as_many_epochs_as_the_script_has(self) -> None:
            """Mosaic closes for the last of them where the run closes it on its way, and from the start where the run does."""
            scripted = len(self.train_loader.batch_sampler.epochs)
            if self.args.close_mosaic:
                self.args.close_mosaic = scripted if self.args.close_mosaic >= self.epochs else 1
            self.epochs = scripted
            self.stopper.patience = math.inf

        def epoch_begins(self) -> None:
            super().epoch_begins()
            self.train_loader.batch_sampler.epoch = self.epoch
            self._micro_batch = 0
            if self.epoch == 0:
                self._phase(Phase.TRAIN)

        def optimizer_step(self) -> None:
            super().optimizer_step()
            recorder.optimizer_step()

        def _batch_ended(self) -> None:
            recorder.batch(timed=self._whole)
            finite = bool(self.loss.isfinite().all())
            recorder.loss(finite=finite)
            if not finite:  # Ultralytics would go back to its last checkpoint three times, and then give up
                raise TrialDone

        def _phase(self, phase: Phase) -> None:
            recorder.phase(phase)
            self._figures.let_go()

        # -- how a run ends

        def final_eval(self) -> None:
            """The best checkpoint is loaded beside everything else, fused and validated."""
            if recorder.report().phase != Phase.FINISH:  # else the figures of the last validation are still being drawn
                self._phase(Phase.FINISH)
            with _said(recorder, bool(self.args.plots)):
                super().final_eval()
            hooks.seen("end")

        def plot_metrics(self) -> None:
            with _said(recorder, bool(self.args.plots)):
                super().plot_metrics()

        def _ended(self) -> None:
            self._figures.wait()
            for loader in (self.train_loader, self.test_loader):
                if hasattr(loader, "close"):
                    loader.close()
            raise TrialDone

        # -- validation

        def _watch_validator(self) -> None:
            validator, preprocess = self.validator, self.validator.preprocess
            _worst_nms(self, recorder)
            _whole_statistics(validator, hooks)
            self._kept: list[int] = []

            def watched(batch: Any) -> Any:
                batch = preprocess(batch)
                images, _, height, width = batch["img"].shape
                script = validator.dataloader.batch_sampler
                if isinstance(script, Script) and any(_same_images(batch, validator.dataloader.dataset, draw) for draw in script.now):
                    hooks.seen("validation batches")
                self._whole = images >= self._expected["val"]
                if plan.val_batch and images == self._expected["val"]:
                    images = plan.val_batch  # a validation set smaller than its batch alters nothing
                _observe_validation_input(recorder, images, max(height, width))
                return batch

            validator.preprocess = watched

        def _validation_batch_ended(self, validator: Any) -> None:
            if self._validated:
                recorder.sample()
                return
            recorder.batch(timed=self._whole)
            if self.device.type != "cuda":  # really gathered in full at the end (``_whole_statistics``)
                return
            self._kept.append(_kept_bytes())
            if len(self._kept) >= EQUALS:
                recorder.measured(growth_bytes_per_batch=growth_of(self._kept[-EQUALS:]))

        def validate(self) -> Any:
            if self._validated:
                return self._validate_at_the_end()
            self._phase(Phase.VALIDATE)
            epochs = self.epochs
            self.epochs = 1 if self._only_epoch else epochs  # figures are drawn in the validation of a last epoch
            result = super().validate()
            self.epochs = epochs
            self._validated = True
            self._phase(Phase.TRAIN_AGAIN)
            return result

        def _validate_at_the_end(self) -> Any:
            """The last epoch's validation draws figures, and the final one comes upon what they left."""
            if self.epoch < self.epochs - 1:
                return dict(self.metrics), self.fitness
            self._phase(Phase.FINISH)
            return super().validate()

    return Trial


def _say_samples(recorder: Recorder, loader: Any, mode: str, asked: int) -> None:
    samples = len(loader.dataset)
    if mode == "train":
        recorder.measured(train_samples=samples)
    else:
        recorder.measured(validation_samples=samples, validation_batches_total=len(loader))
    if loader.batch_size != asked:
        recorder.note(f"{mode}: {samples} images are fewer than a batch of {asked}; Ultralytics runs batches of {loader.batch_size}")


def _same_images(batch: Mapping[str, Any], dataset: Any, draw: Draw) -> bool:
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


def _with_halves(epochs: Sequence[Sequence[Draw]], halves: int) -> list[list[Draw]]:
    """The epochs, the last of which ends with so many micro-batches of half the images of its last."""
    largest = epochs[-1][-1]
    half = largest.few(max(1, len(largest.images) // 2))
    return [*map(list, epochs[:-1]), [*epochs[-1], *[half] * halves]]


def growth_of(kept: Sequence[int]) -> float:
    """Bytes that each of these batches, all alike, has kept for good, where every one of them added something; else 0.

    ``kept``: live memory after each; a card's goes up and down by itself.
    """
    return float(max(0, min(after - before for before, after in itertools.pairwise(kept))))


def _kept_bytes() -> int:
    """What validation on a card holds on to after a batch."""
    import torch

    return int(torch.cuda.memory_allocated())


def _whole_statistics(validator: Any, hooks: Hooks) -> None:
    """The metrics, and the curves drawn of them, are worked out of the predictions on every image of the validation set.

    A trial validates a few batches of it; before the metrics come what these gave is repeated until it is as much.
    """
    get_stats = validator.get_stats

    def of_all_images() -> Any:
        images = len(validator.dataloader.dataset)
        kept = getattr(validator.metrics, "stats", None) or validator.stats  # the validator's own before 8.3.200
        if kept:
            hooks.seen("statistics")
        for gathered in kept.values():
            if seen := len(gathered):
                gathered.extend(gathered[i % seen] for i in range(seen, images))
        if validator.jdict and validator.seen:
            validator.jdict = (validator.jdict * math.ceil(images / validator.seen))[
                : math.ceil(len(validator.jdict) * images / validator.seen)
            ]
        return get_stats()

    validator.get_stats = of_all_images


def _ballast(dataset: Any, image_size: int, recorder: Recorder, mode: str) -> Any:
    """Memory in the place of cached images: as much as they take, and while they are packed twice that (``BaseDataset.cache_images``).

    Measured: exactly what ``cache=ram`` holds, since the run packs its images into one tensor of that size.
    """
    import numpy as np

    size = cached_bytes(dataset.im_files, image_size, getattr(dataset, "channels", 3))
    recorder.note(f"cache=ram: {mode} holds {len(dataset.im_files)} images of {size / 2**20:.0f} MiB; as much is held in the trial")
    images, packed = np.empty(size, np.uint8), np.empty(size, np.uint8)
    recorder.sample()
    del images
    return packed


def _fill_mosaic_buffer(dataset: Any, draw: Draw) -> None:
    """Mosaic keeps the last images it has read, eight batches of them at most; the trial's few would not come to that."""
    shapes = [label.get("shape", (1, 1)) for label in dataset.labels]
    squarest = sorted(range(len(dataset)), key=lambda i: -min(shapes[i]) / max(shapes[i]))  # the long side is the same for all
    for image in list(dict.fromkeys((*draw.images, *squarest)))[: dataset.max_buffer_length]:
        dataset.load_image(image)
    dataset.buffer = list(dict.fromkeys(draw.images))  # mosaic's partners come from here: dense ones


@contextlib.contextmanager
def _said(recorder: Recorder, plots: bool) -> Iterator[None]:
    try:
        yield
    except BaseException:
        figures = " and the figures; plots=False needs less memory" if plots else ""
        recorder.note(f"training and validation went through; what failed is the end of a run: the final validation{figures}")
        raise


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
        if not getattr(validator, "end2end", False):
            scores = found[:, 4 : 4 + validator.nc].flatten(1).nan_to_num()  # RMSProp can leave such weights
            kth = scores.kthvalue(max(1, scores.shape[1] - boxes), dim=1).values
            validator.args.conf = float(kth.min().clamp(0, 1))
        return postprocess(predictions)

    return at_that_confidence
