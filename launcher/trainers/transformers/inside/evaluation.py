"""Evaluates a few batches of the longest samples, and works out what the evaluation of the whole set keeps. Loads torch."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from launcher.shared import procfs
from launcher.shared.report import HOST_BESIDE, Phase
from launcher.trainers.transformers.inside import kept as keeping
from launcher.trainers.transformers.inside import worst
from launcher.trainers.transformers.inside.guard import Hooks, NotCovered
from launcher.trainers.transformers.inside.plan import Plan
from launcher.trainers.transformers.inside.samples import FixedSampler, heaviest_of, rows_of
from launcher.worker.recorder import Recorder

MANY_BYTES = 2**30
"""Predictions of more than that in host memory are told."""


class Evaluation:
    """The evaluations of one trial."""

    def __init__(self, plan: Plan, recorder: Recorder, hooks: Hooks, base_bytes: int) -> None:
        self._plan, self._recorder, self._hooks, self._base_bytes = plan, recorder, hooks, base_bytes
        self.phase = Phase.SETUP
        """The trial's."""
        self._args: Any = None
        self._kept = keeping.Kept()
        self._samples = self._batches = 0
        """Of the whole set."""

    def follow(self, trainer: Any) -> None:
        """Evaluates the longest samples, and sees what is kept of them."""
        self._args = trainer.args
        loader, predict, sampler = trainer.get_eval_dataloader, trainer.prediction_step, trainer._get_eval_sampler

        def watched(model: Any, inputs: Any, *arguments: Any, **options: Any) -> Any:
            self._saw_batch(rows_of(inputs))
            return predict(model, inputs, *arguments, **options)

        trainer._get_eval_sampler = lambda dataset: self._sampler(sampler, dataset)
        trainer.get_eval_dataloader = lambda dataset=None: loader(self._chosen(trainer.eval_dataset if dataset is None else dataset))
        trainer.prediction_step = watched
        if self._plan.on_cpu and trainer.compute_metrics is not None:
            trainer.compute_metrics = self._of_the_whole_set(trainer.compute_metrics)

    def _chosen(self, dataset: Any) -> Any:
        """The part of the data set that is evaluated."""
        if isinstance(dataset, dict):
            raise NotCovered("several evaluation data sets are not covered; give one")
        self._kept = keeping.Kept()
        lengths, size, drop_last = worst.lengths_of(dataset), self._args.eval_batch_size, self._args.dataloader_drop_last
        self._samples = len(lengths)
        ranks = self._args.world_size
        self._batches = len(lengths) // size if drop_last else math.ceil(len(lengths) / size / ranks)
        self._recorder.measured(validation_samples=len(lengths), validation_batches_total=self._batches)
        if len(lengths) < size:
            self._recorder.note(
                f"validation has {len(lengths)} samples, fewer than an evaluation micro-batch of {size}: one batch of them is run"
            )
        at_least = self._plan.orders.validation_batches if self.phase is Phase.VALIDATE else 1
        whole_only, short_too = drop_last or ranks > 1, not self._plan.generates
        chosen = worst.evaluated(lengths, size=size, at_least=at_least, drop_last=whole_only, short_too=short_too)
        heaviest = heaviest_of(dataset) if self._plan.on_cpu else None
        return torch.utils.data.Subset(dataset, worst.dealt(worst.with_heaviest(chosen, heaviest), size, ranks))

    def _sampler(self, usual: Any, subset: Any) -> Any:
        self._hooks.seen("validation samples")
        whole = getattr(subset, "dataset", subset)
        return FixedSampler(range(len(subset)), beside=usual(whole))

    def _saw_batch(self, rows: int) -> None:
        """A set smaller than a batch, and a set's last batch, are smaller; the largest counts."""
        self._hooks.seen("validation step")
        self._kept.began(rows * self._args.world_size)  # each rank keeps what all have found
        if rows < self._args.eval_batch_size and self._batches <= 1:
            return
        self._recorder.observe(val_micro_batch=max(rows, self._recorder.observed.get("val_micro_batch", rows)))

    def kept(self, container: Any) -> None:
        """A container of the evaluation loop's has got more."""
        self._hooks.seen("kept")
        there, moved = keeping.tensor_bytes(container.tensors), keeping.tensor_bytes(container.arrays)
        self._kept.container_bytes[id(container)] = there + moved
        self._kept.held_bytes[id(container)] = there + (moved if self._plan.on_cpu else 0)
        self._kept.widened_bytes[id(container)] = keeping.widened_bytes(container.tensors)

    def batch_ended(self) -> None:
        self._kept.ended(live_bytes=self._live_bytes(), peak_bytes=self._recorder.peak_so_far())
        if self.phase in (Phase.VALIDATE, Phase.FINISH):
            self._recorder.batch()

    def _live_bytes(self) -> int:
        if self._plan.on_cpu:
            return max(0, procfs.data_bytes() - self._base_bytes)
        return int(torch.cuda.memory_allocated())

    def _of_the_whole_set(self, compute: Any) -> Any:
        """``compute_metrics``, which in the trial's validation is called once more with as many rows as the whole set has."""

        @functools.wraps(compute)
        def weighed(prediction: Any, **options: Any) -> Any:
            result = compute(prediction, **options)
            if self.phase is Phase.VALIDATE and options.get("compute_result", True):
                self._kept.metrics_bytes = self._metrics_bytes(compute, prediction)
            return result

        return weighed

    def _metrics_bytes(self, compute: Any, prediction: Any) -> int:
        """What metrics of the whole set need, in bytes in use; 0 where the batches seen were the whole set."""
        by_batch, kept = bool(self._args.batch_eval_metrics), self._kept
        rows = keeping.rows_to_try(rows_in_all=self._samples, bytes_per_row=kept.bytes_per_row)
        if rows <= kept.rows:
            return 0

        def computed(count: int) -> int:
            self._recorder.phase(Phase.VALIDATE)  # its peak is that of the metrics alone
            size = min(count, self._args.eval_batch_size * self._args.world_size) if by_batch else count
            for _ in range(math.ceil(count / size) - 1):
                compute(_repeated(prediction, size), compute_result=False)
            compute(_repeated(prediction, size))
            return self._recorder.peak_so_far()

        return keeping.metrics_need(computed, rows=rows, rows_in_all=self._samples)

    def measure(self) -> None:
        """What the whole set keeps beyond the batches that were seen."""
        kept, args = self._kept, self._args
        if not kept.batches:
            return
        size = args.eval_batch_size * args.world_size
        per_batch = kept.bytes_per_row * size
        left = self._batches - kept.batches
        host_bytes = kept.bytes_per_row * self._samples
        moved, joins = args.eval_accumulation_steps, bool(args.eval_do_concat_batches)
        if not self._plan.on_cpu:
            beside = kept.in_host_memory(size=size, rows_in_all=self._samples, joins=joins, moved_every=moved)
            self._recorder.fact(**{HOST_BESIDE: round(beside)})
        if left > 0:
            on_device = None if self._plan.on_cpu else moved  # on a CPU host memory is the device
            more = kept.beyond_peak(size=size, rows_in_all=self._samples, joins=joins, moved_every=on_device)
            widened = sum(kept.widened_bytes.values()) / kept.rows * self._samples if self._plan.on_cpu and kept.rows else 0
            need = max(kept.peak_bytes + more, kept.metrics_bytes, kept.live_bytes + host_bytes - kept.bytes_per_row * kept.rows + widened)
            seen = max(kept.peak_bytes, self._recorder.peak_so_far())
            self._recorder.measured(growth_bytes_per_batch=max(0.0, need - seen) / left)
        self._recorder.fact(validation_keeps_bytes_per_batch=round(per_batch), validation_keeps_bytes_in_all=round(host_bytes))
        in_all = f"{host_bytes / 2**20:.0f} MiB by the end of an evaluation"
        if moved:
            self._recorder.note(f"eval_accumulation_steps={moved} moves predictions to host memory: {in_all}")
        elif host_bytes > MANY_BYTES and not self._plan.on_cpu:
            self._recorder.note(f"predictions are kept, and go to host memory: {in_all}")


def _repeated(prediction: Any, rows: int) -> Any:
    """An EvalPrediction of ``rows`` rows: those of ``prediction``, again and again."""
    more = {name: keeping.repeated(value, rows) for name in ("losses", "inputs") if (value := getattr(prediction, name, None)) is not None}
    return type(prediction)(
        predictions=keeping.repeated(prediction.predictions, rows), label_ids=keeping.repeated(prediction.label_ids, rows), **more
    )
