"""Takes a ``yolo`` command line, runs it with what Ultralytics cannot say there: exact accumulation, checkpointing, a validation batch.

    python yolo_exact.py [options] detect train model=yolov8x.pt data=data.yaml batch=16 imgsz=1280 epochs=300

Everything after the options goes to Ultralytics unchanged, so native arguments keep their meaning. Options:

--asked-batch B0, --asked-nbs N0
    The run that was asked for. It would take one optimizer step per ``E = B0 * max(round(N0 / B0), 1)`` images, after a
    warm-up that ramps the accumulation from 1. This run's ``batch`` is a micro-batch that divides ``E``: it steps after the same images
    as the asked run, in the warm-up and at the end of a pass, too (after the micro-batch in which they end, where ``batch`` does not
    divide ``B0``), with the asked run's learning rates.
    Leave ``nbs`` and ``weight_decay`` as asked: the applied decay then is the asked run's, to the last bit.
    ``optimizer=auto`` is resolved as the asked run would resolve it. Defaults: this run's own ``batch`` and ``nbs``.
--accumulation-scale K
    The same, said relatively: ``B0 = K * batch``. K may be a fraction (``3/2``).
--checkpointing
    Gradient checkpointing, layer by layer: less memory, about 1.3 to 1.7 times the time; equal gradients and batch-norm statistics.
    Checkpoints on disk stay plain Ultralytics checkpoints.
--val-batch N
    Images per validation batch (per GPU); Ultralytics takes twice the training batch.

Checkpoints are written whole or not at all; Ultralytics writes over the last one in place.
In-loop halving of the batch after an out-of-memory error (Ultralytics, first epoch) is off: this trainer runs what it was told, or fails.

This file needs nothing but torch and ultralytics; keep it beside your data and run it without autofit. It was written against
Ultralytics ``CHECKED`` and runs with any from ``OLDEST`` on: what it builds upon (``RELIANCES``) is checked by what is seen while it
runs. The accumulation that Ultralytics works out for itself must be the one that this file expects, and a batch that Ultralytics
has halved ends the run.
The options travel in the environment variable ``YOLO_EXACT``, so Ultralytics' own multi-GPU workers inherit them.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import inspect
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
import ultralytics
import ultralytics.cfg
from torch import nn
from torch.utils.checkpoint import checkpoint
from ultralytics.engine.model import Model
from ultralytics.engine.trainer import BaseTrainer
from ultralytics.models.yolo.classify import ClassificationTrainer
from ultralytics.models.yolo.detect import DetectionTrainer
from ultralytics.models.yolo.obb import OBBTrainer
from ultralytics.models.yolo.pose import PoseTrainer
from ultralytics.models.yolo.segment import SegmentationTrainer
from ultralytics.nn.tasks import BaseModel
from ultralytics.utils import torch_utils

ENVIRONMENT_VARIABLE = "YOLO_EXACT"

CHECKED = ("8.4.190",)
"""Ultralytics versions whose source was read: ``RELIED_UPON`` holds its hashes. Others are told apart in a note, never refused for it."""

OLDEST = (8, 3, 0)
"""The first Ultralytics that this file was run with."""

unwrap_model: Callable[[Any], Any] = getattr(torch_utils, "unwrap_model", None) or torch_utils.de_parallel
"""The model inside DDP or a compiled one; ``de_parallel`` before Ultralytics 8.3.200."""

RELIED_UPON: Mapping[str, str] = {
    "ultralytics.nn.tasks:BaseModel.forward": "be11e050406b052b",
    "ultralytics.nn.tasks:BaseModel.predict": "a47c1336427f96bc",
    "ultralytics.nn.tasks:BaseModel._predict_once": "b932f70b581bec47",
    "ultralytics.engine.trainer:BaseTrainer.__init__": "f65efe9d96beca31",
    "ultralytics.engine.trainer:BaseTrainer._do_train": "87a635e3bfc4fd3f",
    "ultralytics.engine.trainer:BaseTrainer._setup_train": "aecd0c111afe4314",
    "ultralytics.engine.trainer:BaseTrainer._build_train_pipeline": "07afcc0627f2c8b2",
    "ultralytics.engine.trainer:BaseTrainer._get_warmup_iterations": "2b8d4260941e5926",
    "ultralytics.engine.trainer:BaseTrainer.run_callbacks": "049f548711515e03",
    "ultralytics.engine.trainer:BaseTrainer.setup_model": "33c98eece052d628",
    "ultralytics.engine.trainer:BaseTrainer.build_optimizer": "108f7055e6005628",
    "ultralytics.engine.trainer:BaseTrainer.optimizer_step": "bec16cbc552a8f2d",
    "ultralytics.models.yolo.detect.train:DetectionTrainer.get_dataloader": "981b10cf054f7a1b",
    "ultralytics.models.yolo.detect.train:DetectionTrainer.preprocess_batch": "cd3df8d7801c310d",
    "ultralytics.models.yolo.detect.train:DetectionTrainer._build_train_pipeline": "a86453b56fab7d9a",
    "ultralytics.models.yolo.classify.train:ClassificationTrainer.get_dataloader": "1756fc09ff7eaf5b",
    "ultralytics.models.yolo.classify.train:ClassificationTrainer.preprocess_batch": "400fa382d323bad0",
    "ultralytics.data.build:build_dataloader": "4f01bd7501fe661a",
    "ultralytics.engine.model:Model.train": "478371e11f2ad0ac",
    "ultralytics.engine.model:Model._smart_load": "bedf675ecc25506a",
    "ultralytics.cfg:entrypoint": "65f2c474d1b4d4de",
    "ultralytics.utils.dist:generate_ddp_file": "7c80979f379ddf1a",
}
"""``module:qualified name`` of every function that is patched, overridden or reasoned about -> hash of its source in ``CHECKED``."""


RELIANCES: Mapping[str, str] = {
    "BaseTrainer.accumulate": "assigned by Ultralytics, compared after every micro-batch: where the asked accumulation is put in its "
    "place. Seen: every value assigned in the warm-up is the one that ``Ramp`` expects.",
    "BaseTrainer.preprocess_batch": "called once per micro-batch, before its forward pass: counts them. Seen: the same values.",
    "BaseTrainer.run_callbacks": "on_train_start and on_train_epoch_start (public): when counting begins.",
    "BaseTrainer.build_optimizer": "its ``iterations`` decide optimizer=auto. Seen: the optimizer is among the trial's facts.",
    "BaseTrainer.lf, args.warmup_bias_lr, args.warmup_momentum": "learning rates of the warm-up. Seen: what Ultralytics has set is "
    "what this file believes that it sets; otherwise it is left as it is.",
    "BaseTrainer.get_dataloader": "mode and batch_size: the validation batch. Seen: the batches that come.",
    "BaseTrainer.save_model": "writes by ``write_bytes`` of wdir, last and best. Otherwise they are written as ever.",
    "BaseTrainer.batch_size": "Seen: it stays what it was; Ultralytics halves it after an out-of-memory error.",
    "BaseTrainer._oom_retries": "from 8.4.60 on: set so that it halves nothing. Absent before, and nothing was halved there.",
    "BaseTrainer._get_warmup_iterations": "from 8.4.150 on; before, at least 100 iterations.",
    "BaseModel._predict_once": "the loop over layers that is checkpointed: ``model``, ``save``, and ``f`` and ``i`` of layers.",
    "cfg.ARGV, cfg.entrypoint, Model.train, Model._smart_load": "the yolo command, with another trainer.",
}
"""What is private, or might change, and is relied upon -> what for, and by what it is seen to hold."""


class Refused(ValueError):
    """The run cannot be done exactly as asked. The message says why and what would work."""


# ----------------------------------------------------------------------------------------------------------------------
# What was asked, and how it travels


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of this run. ``None`` means: as Ultralytics itself would do it."""

    asked_batch: int | None = None
    """``batch`` of the asked run, over all GPUs."""
    asked_nbs: int | None = None
    """``nbs`` of the asked run."""
    accumulation_scale: str | None = None
    """``asked_batch / batch`` as text ("4", "3/2"); for callers who think in factors."""
    checkpointing: bool = False
    val_batch: int | None = None
    """Validation images per batch and GPU."""

    @classmethod
    def from_environment(cls) -> Settings:
        return cls(**json.loads(os.environ.get(ENVIRONMENT_VARIABLE, "{}")))

    def asked(self, batch: int, nbs: int) -> tuple[int, int]:
        """(batch, nbs) of the asked run, where this run's own are ``batch`` and ``nbs``."""
        asked_batch = self.asked_batch or batch
        if self.accumulation_scale is not None:
            exact_batch = Fraction(self.accumulation_scale) * batch
            if exact_batch.denominator != 1 or exact_batch < 1:
                raise Refused(
                    f"--accumulation-scale {self.accumulation_scale} x batch={batch} is {float(exact_batch):g}, not a whole batch."
                )
            asked_batch = int(exact_batch)
        return asked_batch, self.asked_nbs or nbs


settings = Settings()


def configure(new: Settings) -> None:
    """Makes ``new`` the settings of this process and of every process it starts."""
    global settings
    settings = new
    os.environ[ENVIRONMENT_VARIABLE] = json.dumps(asdict(new))
    (enable_checkpointing if new.checkpointing else disable_checkpointing)()


# ----------------------------------------------------------------------------------------------------------------------
# Gradient checkpointing: BaseModel._predict_once, layer by layer. The class is patched, never an instance: closures on
# modules would be pickled into last.pt, which then could not be loaded without this file.

_plain_predict_once: Callable[..., Any] = BaseModel._predict_once


@contextlib.contextmanager
def _frozen_batch_norm(layer: nn.Module) -> Iterator[None]:
    """The recomputation in backward must not move running statistics a second time."""
    norms = [m for m in layer.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.training and m.track_running_stats]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
            if norm.num_batches_tracked is not None:
                norm.num_batches_tracked.sub_(1)


def _on_a_copy(layer: nn.Module) -> Callable[[Any], Any]:
    """The layer, which may write into a list of inputs (Detect does, before Ultralytics 8.4): the recomputation needs it as it was."""
    return lambda x: layer(list(x) if isinstance(x, list) else x)


def _has_dropout(layer: nn.Module) -> bool:
    return any(isinstance(m, nn.modules.dropout._DropoutNd) and m.p for m in layer.modules())


def _checkpointed_predict_once(self: Any, x: Any, *options: Any, **named: Any) -> Any:
    """As ``BaseModel._predict_once``, keeping only the layers' inputs for backward while training.

    Its options (profile, embed, and visualize before 8.4) are for other uses than training.
    """
    if any(map(bool, (*options, *named.values()))) or not (self.training and torch.is_grad_enabled()):
        return _plain_predict_once(self, x, *options, **named)
    outputs: list[Any] = []
    for layer in self.model:
        if layer.f != -1:
            x = outputs[layer.f] if isinstance(layer.f, int) else [x if j == -1 else outputs[j] for j in layer.f]
        if any(True for _ in layer.parameters()):
            x = checkpoint(
                _on_a_copy(layer),
                x,
                use_reentrant=False,
                preserve_rng_state=_has_dropout(layer),
                context_fn=lambda layer=layer: (contextlib.nullcontext(), _frozen_batch_norm(layer)),
            )
        else:
            x = layer(x)
        outputs.append(x if layer.i in self.save else None)
    return x


def enable_checkpointing() -> None:
    BaseModel._predict_once = _checkpointed_predict_once


def disable_checkpointing() -> None:
    BaseModel._predict_once = _plain_predict_once


def why_not_checkpointed(model: nn.Module) -> str | None:
    """Why gradient checkpointing cannot be had for ``model``, or None where it can."""
    name = type(model).__name__
    if not isinstance(model, BaseModel):
        kind = (
            "knowledge distillation hooks layers, and hooks would fire twice"
            if hasattr(model, "student_model")
            else "it is no YOLO layer list"
        )
        return f"{name} cannot be checkpointed: {kind}"
    if type(model).predict is not BaseModel.predict:
        return f"{name} cannot be checkpointed: it runs its layers in a loop of its own (RT-DETR, World and YOLOE do)"
    return None


# ----------------------------------------------------------------------------------------------------------------------
# The trainers


def _divisors(number: int) -> Iterable[int]:
    return (d for d in range(1, number + 1) if number % d == 0)


def effective_batch(asked_batch: int, asked_nbs: int) -> int:
    """Images per optimizer step that Ultralytics really takes after warm-up (``accumulate``, engine/trainer.py:321)."""
    return asked_batch * asked_accumulation(asked_batch, asked_nbs)


def asked_accumulation(asked_batch: int, asked_nbs: int) -> int:
    return max(round(asked_nbs / asked_batch), 1)


@dataclass(frozen=True, kw_only=True)
class Ramp:
    """How an Ultralytics ramps its accumulation over the warm-up. It has changed over the versions, and so have whole steps."""

    floor: int
    """A warm-up is at least so many iterations; 0 where it is as long as its epochs."""
    capped: bool
    """It ends at the whole accumulation, which is at most the run's micro-batches; else at nbs / batch."""
    inclusive: bool
    """The last iteration of it reaches the end; else the one before it is the last that counts."""

    @classmethod
    def of(cls, trainer: Any) -> Ramp:
        """The ramp of ``trainer``'s class, by the words of its loop; what it then assigns is held against this (``Exact.accumulate``)."""
        try:
            loop = inspect.getsource(trainer._do_train)
        except OSError:  # only compiled files: taken for the newest
            loop = "acc0"
        return cls(
            floor=0 if hasattr(trainer, "_get_warmup_iterations") else 100, capped="acc0" in loop, inclusive="if ni < nw" not in loop
        )

    def at(self, iteration: int, *, warmup: int, end: Fraction) -> int:
        """Micro-batches per step at an iteration of a run that begins at 0."""
        return max(1, int(np.interp(min(iteration, self.last(warmup)), [0, warmup], [1, float(end)]).round()))

    def last(self, warmup: int) -> int:
        """The last iteration at which Ultralytics assigns its accumulation."""
        return warmup if self.inclusive else warmup - 1


def _ranks(trainer: Any) -> int:
    """GPUs of the run; trainers before 8.3.200 know them only while they train."""
    known = getattr(trainer, "world_size", None)
    return max(len(str(trainer.args.device or "").split(",")) if known is None else known, 1)


class _Whole(type(Path())):  # type: ignore[misc]
    """A path whose file is written whole or not at all: what was there before stays until the new bytes are on the disk."""

    def write_bytes(self, data: Any) -> int:
        beside = Path(f"{self}.part")
        try:
            with beside.open("wb") as file:
                written = file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self)
        finally:
            beside.unlink(missing_ok=True)
        return written


class Asked:
    """The asked run, micro-batch by micro-batch: where it takes an optimizer step."""

    def __init__(self, start: int, *, ramp: Callable[[int], int]) -> None:
        """``ramp``: iteration -> micro-batches per step."""
        self._at, self._last, self._ramp = start, start - 1, ramp
        self._due = False

    def steps_at(self, iteration: int) -> bool:
        """Whether it has stepped since ``stepped``, once it has trained on so many micro-batches."""
        while self._at < iteration:
            self._due = self._steps() or self._due
        return self._due

    def steps_in_all(self, iterations: int, *, warmup: int) -> int:
        """Of a run of so many micro-batches that is not ended early. ``warmup``: after so many its accumulation stays as it is."""
        made = sum(self._steps() for _ in range(min(warmup, iterations)))
        return made + max(iterations - 1 - self._last, 0) // self._ramp(warmup)

    def _steps(self) -> bool:
        """Trains on one more micro-batch; whether it steps then."""
        steps = self._at - self._last >= self._ramp(self._at)
        if steps:
            self._last = self._at
        self._at += 1
        return steps

    def stepped(self) -> None:
        self._due = False


def exact(base: Any) -> Any:
    """A trainer class that does what ``base`` does, with this process's ``settings``.

    Its name keeps "Trainer": Ultralytics attaches the loggers (wandb, mlflow, ...) only to classes so named.
    """

    class Exact(base):  # type: ignore[misc]
        _asked_cap: int | None = None
        """Ultralytics never accumulates more than the asked run has micro-batches; known once the loaders are built."""
        _begun: int | None = None
        """Micro-batches begun in this epoch; None before the first."""
        _own: tuple[int, int, Fraction] | None = None
        """(micro-batches per epoch, iterations of warm-up, end of the ramp) as Ultralytics' own loop has them; None before it begins."""
        _asked: Asked | None = None
        """The asked run, as far as this one has come; None before it begins."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._asked_batch, self._asked_nbs = settings.asked(self.args.batch, self.args.nbs)
            self._ramp, self._warmup_epochs, self._own_batch = Ramp.of(self), self.args.warmup_epochs, self.args.batch
            self._refuse_what_cannot_be_exact()

        def _refuse_what_cannot_be_exact(self) -> None:
            batch, ranks, effective = self.args.batch, _ranks(self), effective_batch(self._asked_batch, self._asked_nbs)
            if not isinstance(batch, int) or batch < 1:
                raise Refused(f"batch={batch} lets Ultralytics choose the batch. Give a whole number of images.")
            if effective % batch:
                below, above = (
                    max(d for d in _divisors(effective) if d < batch),
                    min((d for d in _divisors(effective) if d > batch), default=effective),
                )
                raise Refused(
                    f"batch={batch} does not divide the effective batch of {effective} images "
                    f"(asked: batch={self._asked_batch}, nbs={self._asked_nbs}). Nearest that do: {below} and {above}."
                )
            for number in {batch, self._asked_batch}:
                if number % ranks:
                    raise Refused(
                        f"batch={number} over {ranks} GPUs: Ultralytics would run {number // ranks * ranks}. Take a multiple of {ranks}."
                    )
            if settings.checkpointing and getattr(self.args, "distill_model", None) is not None:
                raise Refused("--checkpointing with distill_model: the teacher's forward hooks would fire twice. Drop one of the two.")
            if settings.checkpointing and getattr(self.args, "compile", False):
                raise Refused(
                    "--checkpointing with compile: untested together, inductor checkpoints by its own rules. Drop one of the two."
                )

        def setup_model(self) -> Any:
            loaded = super().setup_model()
            reason = why_not_checkpointed(unwrap_model(self.model)) if settings.checkpointing else None
            if reason:
                raise Refused(f"{reason}. Drop --checkpointing.")
            return loaded

        # -- effective batch

        @property
        def accumulate(self) -> int:
            """Micro-batches per optimizer step, now. The training loop compares with it after every micro-batch."""
            return self._accumulation()

        @accumulate.setter
        def accumulate(self, value: int) -> None:
            """Ultralytics assigns what it works out from this run's own batch; the asked run decides instead.

            What it assigns in its loop must be what this file believes of it: the asked run would be taken for another otherwise.
            """
            if self._own is None or self._begun is None:
                return
            batches, warmup, end = self._own
            iteration = self._begun + batches * self.epoch
            expected = self._ramp.at(iteration, warmup=warmup, end=end)
            if value != expected:
                raise Refused(
                    f"ultralytics {ultralytics.__version__} accumulates otherwise than this file knows it: {value} instead of {expected} "
                    f"micro-batches at iteration {iteration} of a warm-up of {warmup}. Run batch={self._asked_batch} by the plain yolo "
                    f"command, or install a version that was checked: pip install ultralytics=={CHECKED[-1]}"
                )

        def _accumulation(self) -> int:
            """In the loop, so many that Ultralytics, which compares them with micro-batches since its last step (``ni - last_opt_step``),
            steps after this one where the asked run has stepped on the same images, the last ones of a pass included, and else doesn't."""
            if not self._begun or self._asked is None:
                return max(1, math.floor(Fraction(self._asked_batch, self.batch_size) * self._asked_accumulation() + Fraction(1, 2)))
            return 1 if self._asked.steps_at(self._asked_iteration()) else self._begun + len(self.train_loader) * self.epoch + 1

        def _asked_iteration(self) -> int:
            """Micro-batches that the asked run has trained on when it has seen as many images as this one."""
            begun, batches = self._begun or 0, self._asked_batches()
            of_pass = batches if begun == len(self.train_loader) else min(begun * self.batch_size // self._asked_batch, batches)
            return int(batches * self.epoch + of_pass)

        def optimizer_step(self) -> Any:
            if self._begun and self._own is not None and self.batch_size != self._asked_batch:
                self._warm(self._begun - 1 + self._own[0] * self.epoch)
            if self._asked is not None:
                self._asked.stepped()
            return super().optimizer_step()

        def _warm(self, iteration: int) -> None:
            """In the warm-up learning rates rise from micro-batch to micro-batch: a step is given those of the asked run's."""
            own, warmup = self._own[1] if self._own else 0, self._warmup_iterations(self._asked_batches())
            if not own or not warmup or iteration > self._ramp.last(own):
                return
            there = min(max(self._asked_iteration() - 1, 0), self._ramp.last(warmup))
            groups = self.optimizer.param_groups
            named = any("param_group" in group for group in groups)
            for number, group in enumerate(groups):
                bias = group.get("param_group") == "bias" if named else number == 0
                for key, first, last in self._rises(group, bias):
                    if math.isclose(group[key], np.interp(iteration, [0, own], [first, last]), rel_tol=1e-9, abs_tol=1e-15):
                        group[key] = float(np.interp(there, [0, warmup], [first, last]))

        def _rises(self, group: Mapping[str, Any], bias: bool) -> Iterator[tuple[str, float, float]]:
            """(setting, at the beginning of the warm-up, at its end) of a group, as Ultralytics has them."""
            yield "lr", self.args.warmup_bias_lr if bias else 0.0, group["initial_lr"] * self.lf(self.epoch)
            if "momentum" in group:
                yield "momentum", self.args.warmup_momentum, self.args.momentum

        def _asked_accumulation(self) -> int:
            """Of the asked run, after its warm-up."""
            final = asked_accumulation(self._asked_batch, self._asked_nbs)
            return final if self._asked_cap is None else min(final, self._asked_cap)

        def asked_run(self, start: int = 0) -> Asked:
            """The asked run from an iteration on."""
            final = self._asked_accumulation()
            warmup = self._warmup_iterations(self._asked_batches())
            end = Fraction(final) if self._ramp.capped else Fraction(self._asked_nbs, self._asked_batch)
            ramps = bool(warmup) and start <= self._ramp.last(warmup)  # a resumed run has passed its warm-up
            return Asked(start, ramp=lambda at: self._ramp.at(at, warmup=warmup, end=end) if ramps else final)

        def updates_in_all(self) -> int | None:
            """Optimizer steps of the asked run, and so of this one; None where they hang on the clock, or where two of them may come in one
            micro-batch."""
            batches = self._asked_batches()
            if self.args.time or self._asked_batch % self.batch_size:
                return None
            warmup = self._warmup_iterations(batches)
            return self.asked_run().steps_in_all(batches * self.epochs, warmup=self._ramp.last(warmup) + 1 if warmup else 0)

        def _warmup_iterations(self, batches: int) -> int:
            """Iterations of the warm-up of a run with so many per epoch; 0 where it has none."""
            if not self._ramp.floor:
                return int(self._get_warmup_iterations(batches))
            return max(round(self._warmup_epochs * batches), self._ramp.floor) if self._warmup_epochs > 0 else 0

        def _asked_batches(self) -> int:
            """Micro-batches per epoch of the asked run (``build_dataloader``)."""
            samples = len(self.train_loader.sampler)
            size = min(self._asked_batch // _ranks(self), len(self.train_loader.dataset))
            whole_only = self.train_loader.drop_last and samples > size
            return int(samples // size if whole_only else math.ceil(samples / size))

        def _build_train_pipeline(self) -> None:
            self._asked_cap = None  # the applied weight decay is worked out before Ultralytics caps the accumulation
            super()._build_train_pipeline()
            if self._ramp.capped and not self.args.time:
                self._asked_cap = self._asked_batches() * self.epochs

        def _setup_train(self, *world_size: Any) -> None:
            super()._setup_train(*world_size)
            if self._ramp.floor and self._warmup_epochs > 0:  # the floor counts iterations; the asked run's are of more images
                asked = self._warmup_iterations(self._asked_batches())
                self.args.warmup_epochs = asked * self._asked_batch / self.batch_size / len(self.train_loader)

        def run_callbacks(self, event: str) -> None:
            """Ultralytics says here where its loop is."""
            if event == "on_train_start":
                self._loop_begins()
            elif event == "on_train_epoch_start":
                self.epoch_begins()
            super().run_callbacks(event)

        def _loop_begins(self) -> None:
            batches = len(self.train_loader)
            if self._ramp.floor:
                warmup = max(round(self.args.warmup_epochs * batches), self._ramp.floor) if self.args.warmup_epochs > 0 else 0
            else:
                warmup = self._warmup_iterations(batches)
            self.args.warmup_epochs = self._warmup_epochs
            end = Fraction(self.accumulate) if self._ramp.capped else Fraction(self.args.nbs, self.batch_size)
            self._own = (batches, warmup, end)
            self._asked = self.asked_run(self._asked_batches() * self.start_epoch)

        def epoch_begins(self) -> None:
            """Before the first micro-batch of an epoch."""
            self._begun = 0
            self._oom_retries = 3  # no more retries, so an out-of-memory error is raised

        def preprocess_batch(self, batch: Any) -> Any:
            """Called once for every micro-batch, before its forward pass."""
            if self._begun is not None:
                self._begun += 1
            if self.batch_size != self._own_batch:
                raise RuntimeError(
                    f"out of memory: Ultralytics goes on with batch={self.batch_size} instead of {self._own_batch}, which is another run"
                )
            return super().preprocess_batch(batch)

        def save_model(self) -> Any:
            """Ultralytics writes over last.pt in place: a full disk or a kill would tear the only one there is."""
            before = {name: getattr(self, name) for name in ("wdir", "last", "best")}
            try:
                for name, path in before.items():
                    setattr(self, name, _Whole(path))
                return super().save_model()
            finally:
                for name, path in before.items():
                    setattr(self, name, path)

        # -- optimizer and validation batch

        def build_optimizer(self, *args: Any, **kwargs: Any) -> Any:
            """``optimizer=auto`` goes by the number of iterations; a rung must not flip the asked run's choice."""
            steps = math.ceil(len(self.train_loader.dataset) / max(self._asked_batch, self._asked_nbs))
            return super().build_optimizer(*args, **{**kwargs, "iterations": steps * self.epochs})

        def get_dataloader(self, dataset_path: Any, batch_size: int = 16, rank: int = 0, mode: str = "train") -> Any:
            if mode == "val" and settings.val_batch:
                batch_size = settings.val_batch
            return super().get_dataloader(dataset_path, batch_size=batch_size, rank=rank, mode=mode)

    Exact.__name__ = Exact.__qualname__ = f"Exact{base.__name__}"
    Exact.__module__ = __name__
    return Exact


ExactDetectionTrainer = exact(DetectionTrainer)
ExactSegmentationTrainer = exact(SegmentationTrainer)
ExactPoseTrainer = exact(PoseTrainer)
ExactOBBTrainer = exact(OBBTrainer)
ExactClassificationTrainer = exact(ClassificationTrainer)

_EXACT = {
    DetectionTrainer: ExactDetectionTrainer,
    SegmentationTrainer: ExactSegmentationTrainer,
    PoseTrainer: ExactPoseTrainer,
    OBBTrainer: ExactOBBTrainer,
    ClassificationTrainer: ExactClassificationTrainer,
}


def set_up(trainer: Any) -> None:
    """Builds what ``trainer`` trains with, up to its first batch. Before Ultralytics 8.3.200 that is told the number of GPUs."""
    told = "world_size" in inspect.signature(BaseTrainer._setup_train).parameters
    trainer._setup_train(*([0] if told else []))


def trainer_for(model: Any) -> Any:
    """The exact trainer for an Ultralytics ``Model``; raises ``Refused`` where there is none."""
    base = model._smart_load("trainer")
    if base not in _EXACT:
        covered = ", ".join(sorted(known.__name__ for known in _EXACT))
        raise Refused(f"{base.__module__}.{base.__name__} is not covered here (covered: {covered}). Run it by the plain yolo command.")
    return _EXACT[base]


# ----------------------------------------------------------------------------------------------------------------------
# The version guard


def source_hash(name: str) -> str:
    """Hash of the source of ``module:qualified.name``; text saying so where there is none."""
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = inspect.getattr_static(found, part) if inspect.isclass(found) else getattr(found, part)
        source = inspect.getsource(getattr(found, "__func__", found))
    except (ImportError, AttributeError, OSError, TypeError) as error:
        return f"missing ({type(error).__name__})"
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def changed(table: Mapping[str, str]) -> tuple[str, ...]:
    """The names in ``table`` whose source is not the one that was checked."""
    return tuple(name for name, expected in table.items() if source_hash(name) != expected)


def check_ultralytics(version: str = ultralytics.__version__) -> None:
    """Raises ``Refused`` where the installed Ultralytics is older than any that this file was run with."""
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if numbers is not None and tuple(map(int, numbers.groups())) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise Refused(
            f"ultralytics {version} is installed; exact training needs {oldest} or a later one: pip install 'ultralytics>={oldest}'"
        )


def untried(table: Mapping[str, str] = RELIED_UPON, version: str = ultralytics.__version__) -> str | None:
    """A note where the installed Ultralytics reads otherwise than the one that was checked; None where it reads the same."""
    different = changed(table)
    if not different:
        return None
    return f"ultralytics {version} isn't the {CHECKED[-1]} that was read ({len(different)} functions differ): checked by behaviour"


# ----------------------------------------------------------------------------------------------------------------------
# The command line


def parse(argv: Sequence[str]) -> tuple[Settings, list[str]]:
    """Splits leading options of ours from Ultralytics' own words, which are returned untouched."""
    parser = argparse.ArgumentParser(prog="yolo_exact.py", description="The yolo command, trained exactly.", allow_abbrev=False)
    parser.add_argument("--asked-batch", type=int, metavar="B0", help="batch of the asked run; this run's batch is a micro-batch of it")
    parser.add_argument("--asked-nbs", type=int, metavar="N0", help="nbs of the asked run (default: this run's)")
    parser.add_argument("--accumulation-scale", metavar="K", help="asked batch / batch, a whole number or a fraction such as 3/2")
    parser.add_argument("--checkpointing", action="store_true", help="gradient checkpointing")
    parser.add_argument("--val-batch", type=int, metavar="N", help="images per validation batch and GPU")
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="...", help="the yolo command, e.g. detect train model=yolo11n.pt data=d.yaml"
    )
    found = vars(parser.parse_args(argv))
    words = found.pop("words")
    if found["asked_batch"] and found["accumulation_scale"]:
        parser.error("--asked-batch and --accumulation-scale say the same thing: give one of them")
    return Settings(**found), words


def train_exactly(self: Any, trainer: Any = None, **kwargs: Any) -> Any:
    """``Model.train`` with the exact trainer as its default."""
    return _plain_train(self, trainer or trainer_for(self), **kwargs)


_plain_train: Callable[..., Any] = Model.train


def main(argv: Sequence[str]) -> None:
    """Runs the yolo command in ``argv`` in this process; Ultralytics' own errors come through unchanged."""
    chosen, words = parse(argv)
    check_ultralytics()
    configure(chosen)
    Model.train = train_exactly
    ultralytics.cfg.ARGV = ["yolo", *words]  # not entrypoint("..."): that splits on blanks
    ultralytics.cfg.entrypoint()


def _importable() -> Any:
    """This module under its own name: what __main__ defines cannot be unpickled in a multi-GPU worker."""
    if __spec__ is not None:
        return importlib.import_module(__spec__.name)
    folder = str(Path(__file__).resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(Path(__file__).stem)


if ENVIRONMENT_VARIABLE in os.environ and __name__ != "__main__":
    configure(Settings.from_environment())  # a multi-GPU worker unpickles the trainer, which imports this module

if __name__ == "__main__":
    try:
        _importable().main(sys.argv[1:])
    except ValueError as error:
        if type(error).__name__ != Refused.__name__:
            raise
        sys.exit(f"yolo_exact: {error}")
