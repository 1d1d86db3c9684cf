"""Ultralytics' trainers, with exact accumulation. Beside ``yolo.py``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import ultralytics
from ultralytics.engine.trainer import BaseTrainer
from ultralytics.models.yolo.detect import DetectionTrainer
from ultralytics.models.yolo.obb import OBBTrainer
from ultralytics.models.yolo.pose import PoseTrainer
from ultralytics.models.yolo.segment import SegmentationTrainer
from ultralytics.utils import torch_utils

from . import exact_settings, layer_checkpointing, yolo_ranks
from .accumulation_ramp import AskedRun, Ramp, asked_accumulation, effective_batch
from .exact_settings import Refused

unwrap_model: Callable[[Any], Any] = getattr(torch_utils, "unwrap_model", None) or torch_utils.de_parallel
"""The model inside DDP or a compiled one; ``de_parallel`` before Ultralytics 8.3.200."""
_OF_THE_CHECKPOINT = ("model", "data", "mode", "task", "project", "name", "save_dir", "exist_ok", "resume", "pretrained")
"""What a run that goes on finds there, or is told by itself."""


def _ranks(trainer: Any) -> int:
    """GPUs of the run; trainers before 8.3.200 know them only while they train."""
    known = getattr(trainer, "world_size", None)
    return max(len(str(trainer.args.device or "").split(",")) if known is None else known, 1)


class Exact(BaseTrainer):  # type: ignore[misc]
    """A trainer that does what its other base class does, with this process's ``exact_settings.settings``."""

    _asked_cap: int | None = None
    """Ultralytics never accumulates more than the asked run has micro-batches; known once the loaders are built."""
    _begun: int | None = None
    """Micro-batches begun in this epoch; None before the first."""
    _own: tuple[int, int, Fraction] | None = None
    """(micro-batches per epoch, iterations of warm-up, end of the ramp) as Ultralytics' own loop has them; None before it begins."""
    _asked: AskedRun | None = None
    """The asked run, as far as this one has come; None before it begins."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "overrides": yolo_ranks.in_the_folder_of_rank_0(kwargs.get("overrides"))})
        yolo_ranks.tell_folder(self.save_dir)
        self._asked_batch, self._asked_nbs = exact_settings.settings.asked(self.args.batch, self.args.nbs)
        self._ramp, self._warmup_epochs, self._own_batch = Ramp.of(self), self.args.warmup_epochs, self.args.batch
        self._refuse_what_cannot_be_exact()
        if exact_settings.settings.tell:
            Path(exact_settings.settings.tell).write_text(f"{Path(self.save_dir).absolute()}\n", encoding="utf-8")

    def check_resume(self, overrides: Any) -> None:
        """Ultralytics takes most arguments of a run that goes on, ``nbs`` among them, from the checkpoint, which may be another rung's.

        Whatever keeps it from loading one, memory or what is in the file, it tells as a file that isn't there."""
        try:
            super().check_resume(overrides)
        except FileNotFoundError as error:
            raise (error.__cause__ or error) from None
        for key, value in overrides.items() if self.resume else ():
            if key not in _OF_THE_CHECKPOINT:
                setattr(self.args, key, value)

    def _refuse_what_cannot_be_exact(self) -> None:
        batch, cards, effective = self.args.batch, _ranks(self), effective_batch(self._asked_batch, self._asked_nbs)
        if not isinstance(batch, int) or batch < 1:
            raise Refused(f"batch={batch} lets Ultralytics choose the batch. Give a whole number of images.")
        if effective % batch:
            asked = f"asked: batch={self._asked_batch}, nbs={self._asked_nbs}"
            raise Refused(f"batch={batch} does not divide the effective batch of {effective} images ({asked}).")
        for number in {batch, self._asked_batch}:
            if number % cards:
                raise Refused(
                    f"batch={number} over {cards} GPUs: Ultralytics would run {number // cards * cards}. Take a multiple of {cards}."
                )
        if exact_settings.settings.checkpointing and getattr(self.args, "distill_model", None) is not None:
            raise Refused("checkpointing with distill_model: the teacher's forward hooks would fire twice. Drop one of the two.")
        if exact_settings.settings.checkpointing and getattr(self.args, "compile", False):
            raise Refused("checkpointing with compile: untested together, inductor checkpoints by its own rules. Drop one of the two.")

    def setup_model(self) -> Any:
        loaded = super().setup_model()
        reason = layer_checkpointing.why_not(unwrap_model(self.model)) if exact_settings.settings.checkpointing else None
        if reason:
            raise Refused(f"{reason}. Drop checkpointing.")
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
                f"command, or install a version that it knows: pip install ultralytics=={exact_settings.READ}"
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

    def asked_run(self, start: int = 0) -> AskedRun:
        """The asked run from an iteration on."""
        final = self._asked_accumulation()
        warmup = self._warmup_iterations(self._asked_batches())
        end = Fraction(final) if self._ramp.capped else Fraction(self._asked_nbs, self._asked_batch)
        ramps = bool(warmup) and start <= self._ramp.last(warmup)  # a resumed run has passed its warm-up
        return AskedRun(start, ramp=lambda at: self._ramp.at(at, warmup=warmup, end=end) if ramps else final)

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

    # -- optimizer and validation batch

    def build_optimizer(self, *args: Any, **kwargs: Any) -> Any:
        """``optimizer=auto`` goes by the number of iterations; a rung must not flip the asked run's choice."""
        steps = math.ceil(len(self.train_loader.dataset) / max(self._asked_batch, self._asked_nbs))
        return super().build_optimizer(*args, **{**kwargs, "iterations": steps * self.epochs})

    def get_dataloader(self, dataset_path: Any, batch_size: int = 16, rank: int = 0, mode: str = "train") -> Any:
        if mode == "val" and exact_settings.settings.val_batch:
            batch_size = exact_settings.settings.val_batch
        return super().get_dataloader(dataset_path, batch_size=batch_size, rank=rank, mode=mode)


def exact(base: Any) -> Any:
    """A trainer class that does what ``base`` does, exactly.

    Its name keeps "Trainer": Ultralytics attaches the loggers (wandb, mlflow, ...) only to classes so named.
    """
    return type(f"Exact{base.__name__}", (Exact, base), {"__module__": __name__})


COVERED = (DetectionTrainer, SegmentationTrainer, PoseTrainer, OBBTrainer)


def trainer_for(model: Any) -> Any:
    """The exact trainer for an Ultralytics ``Model``; raises ``Refused`` where there is none."""
    base = model._smart_load("trainer")
    if base not in COVERED:
        covered = ", ".join(sorted(known.__name__ for known in COVERED))
        raise Refused(f"{base.__module__}.{base.__name__} is not covered here (covered: {covered}). Run it by the plain yolo command.")
    return exact(base)
