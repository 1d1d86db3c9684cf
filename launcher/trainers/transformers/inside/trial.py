"""Takes orders whose payload is a rung as a built-in trainer's command line; runs a truncated, real training of it on the worst data.

The very script that the full run launches is run, with the very words, through transformers' own loop, loaders, evaluation and optimizer.
Replaced are which samples come (the longest labels), how many, and everything that writes. Generation is forced to its full length.
What it relies upon is guarded by ``RELIED_UPON`` and tested in tests/trainers/transformers/inside/test_trial.py.

Payload: ``script`` (dotted module with ``main(argv)``), ``argv`` (this rung's own words), ``imports`` (modules to import
before the budget is taken), ``generates`` (bool: evaluation generates text).
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from launcher import procfs
from launcher.contract.orders import Orders
from launcher.contract.report import Phase
from launcher.trainers.transformers.environment import IMPORTS
from launcher.worker import budget
from launcher.worker.recorder import Recorder

CHECKED = ("5.23.0",)
"""transformers versions that the tests ran against. Another one is accepted while ``RELIED_UPON`` reads the same there."""

RELIED_UPON: Mapping[str, str] = {
    "transformers.trainer:Trainer.get_batch_samples": "0b3727386f73f670",
    "transformers.trainer:Trainer._run_epoch": "31aff00f34c302a2",
    "transformers.trainer:Trainer.training_step": "e9760c8ee10308d5",
    "transformers.trainer:Trainer.compute_loss": "160dea726d2f28bd",
    "transformers.trainer:Trainer.get_train_dataloader": "205a99685f8facd9",
    "transformers.trainer:Trainer.get_eval_dataloader": "dd1c9287ad46f5ae",
    "transformers.trainer:Trainer._get_dataloader": "d1296dbd4dcb6a20",
    "transformers.trainer:Trainer.evaluate": "47001f3acc991bc4",
    "transformers.trainer:Trainer.evaluation_loop": "a0fe4d6536f8a84a",
    "transformers.trainer:Trainer._maybe_log_save_evaluate": "af101534f0f7b2d7",
    "transformers.trainer:Trainer._get_num_items_in_batch": "a31fa106f70db1b9",
    "transformers.trainer_seq2seq:Seq2SeqTrainer.prediction_step": "3965ce182d654f6b",
    "transformers.trainer_pt_utils:EvalLoopContainer": "e80b2043fe201fb6",
    "transformers.trainer_pt_utils:nested_concat": "41d3ec83532387ce",
    "transformers.trainer_callback:DefaultFlowCallback": "c9efb81c3102d41f",
}
"""``module:qualified name`` of every function that is patched or reasoned about -> hash of its source in ``CHECKED``."""

WITHOUT_END = 1 << 20
"""``min_length`` that keeps ``generate`` from stopping early: it runs to its own maximum, where the key-value cache peaks."""

MOST_ACCUMULATION = 2
"""Micro-batches per optimizer step in a trial. The rest of an accumulated batch is held as copies: see ``_Trial.batches``."""


class NotCovered(ValueError):
    """This trial cannot say anything true about such a run. The message says which, and what is covered."""


class TrialDone(BaseException):
    """Everything was seen. A BaseException, so that no handler of the trainer's keeps the run going."""


def run(orders: Orders, recorder: Recorder) -> None:
    """The trial. Returns when it went through; raises whatever ended it."""
    for name in (*IMPORTS, *orders.payload["imports"], orders.payload["script"]):
        importlib.import_module(name)
    check_transformers()
    plan = Plan.of(orders)
    script = importlib.import_module(plan.script)
    script.arguments(plan.full_argv)  # what the full run would refuse is refused now
    taken = budget.take(orders)
    recorder.budget(taken)
    for complaint in budget.complaints(orders.device):
        recorder.note(complaint)
    recorder.phase(Phase.SETUP)
    trial = _Trial(plan, recorder, taken.base_bytes)
    trial.install()
    try:
        script.main(plan.argv)
    except TrialDone:
        recorder.phase(Phase.DONE)
    else:
        raise RuntimeError("the trainer ended before the trial had seen its steps")


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The orders, read: what is asked of the trainer and how much of it."""

    script: str
    argv: tuple[str, ...]
    """The rung's words, followed by those that keep a trial short and quiet; the last word counts."""
    full_argv: tuple[str, ...]
    """The rung's words as the full run gets them, save for the output folder."""
    generates: bool
    on_cpu: bool
    accumulation: int
    """Micro-batches per optimizer step here."""
    real_accumulation: int
    """Micro-batches per optimizer step in the full run."""
    steps: int
    validation_batches: int
    steps_after: int
    halves: int = 0
    """Micro-batches of half the samples at the end, where the driver may spill: their time per sample is held against whole ones'."""

    @classmethod
    def of(cls, orders: Orders) -> Plan:
        accumulation = min(max(orders.accumulation, 1), MOST_ACCUMULATION)
        varied = 1 if orders.device == "cpu" else orders.enough(len(SHAPES), accumulation=accumulation)
        steps, steps_after = max(orders.steps, 2, varied), max(orders.steps_after, 1, varied)
        halves = HALVES if orders.may_spill else 0
        output_dir = str(orders.scratch / "run")
        short_and_quiet = {
            "output_dir": output_dir,
            "gradient_accumulation_steps": accumulation,
            "max_steps": steps + steps_after + 1 + orders.enough(halves, accumulation=accumulation),
            "eval_strategy": "no",  # the trial itself says when
            "save_strategy": "no",
            "load_best_model_at_end": False,
            "eval_on_start": False,
            "push_to_hub": False,
            "logging_strategy": "no",
            "report_to": "none",
            "disable_tqdm": True,
        }
        words = [word for key, value in short_and_quiet.items() for word in (f"--{key}", str(value))]
        return cls(
            script=orders.payload["script"],
            argv=(*orders.payload["argv"], *words),
            full_argv=(*orders.payload["argv"], "--output_dir", output_dir),
            generates=bool(orders.payload["generates"]),
            on_cpu=orders.device == "cpu",
            accumulation=accumulation,
            real_accumulation=max(orders.accumulation, 1),
            steps=steps,
            validation_batches=max(orders.validation_batches, 2),
            steps_after=steps_after,
            halves=halves,
        )


# ---------------------------------------------------------------------------------------------------------------------------------
# The worst of the data


def longest_first(lengths: Sequence[int]) -> list[int]:
    """Indices, longest sample first; of equals the first."""
    return sorted(range(len(lengths)), key=lambda index: -lengths[index])


def worst_batches(lengths: Sequence[int], micro_batch: int, count: int) -> list[int]:
    """The batch of the longest samples, ``count`` times over; samples repeat where there are fewer than a batch."""
    order = longest_first(lengths)
    worst = (order * math.ceil(micro_batch / len(order)))[:micro_batch]
    return worst * count


SHAPES = ("largest", "small", "odd", "largest")
"""In which order a trial on a card meets lengths: what is free after the longest is in pieces for the others."""
HALVES = 2
"""The first warms up."""


def varied_batches(lengths: Sequence[int], micro_batch: int, count: int) -> list[int]:
    """``count`` batches in the order of ``SHAPES``, over and over: of the longest samples, of the shortest, of those in between."""
    order = longest_first(lengths)
    starts = {"largest": 0, "odd": max(0, (len(order) - micro_batch) // 3), "small": max(0, len(order) - micro_batch)}
    batches = {shape: (order[at:] * math.ceil(micro_batch / len(order[at:])))[:micro_batch] for shape, at in starts.items()}
    return [index for number in range(count) for index in batches[SHAPES[number % len(SHAPES)]]]


def lengths_of(dataset: Any) -> list[int]:
    """What a built-in trainer says of its samples' lengths. Raises NotCovered where nothing is said: the worst could not be known."""
    lengths = getattr(dataset, "lengths", None)
    if lengths is None or not len(lengths):
        raise NotCovered(f"{type(dataset).__name__} doesn't say how long its samples are, so the worst batch can't be known")
    return list(lengths)


# ---------------------------------------------------------------------------------------------------------------------------------
# What an evaluation keeps


def tensor_bytes(kept: Any) -> int:
    """Bytes of all tensors and arrays in nested lists, tuples and mappings."""
    if kept is None:
        return 0
    if isinstance(kept, Mapping):
        return sum(map(tensor_bytes, kept.values()))
    if isinstance(kept, (list, tuple)):
        return sum(map(tensor_bytes, kept))
    return int(getattr(kept, "nbytes", 0))


def needed_beyond_peak(
    *, kept_per_batch: float, batches_seen: int, batches_total: int, live_bytes: int, peak_bytes: int, joins: bool, moved_every: int | None
) -> float:
    """Bytes that the whole validation set needs beyond the peak of the batches seen.

    Each batch's predictions are kept to the end of the evaluation. ``joins``: they are joined anew at every batch (``nested_concat``
    makes the new tensor while the old one is alive), so that for a moment nearly twice as much is there as is kept.
    ``moved_every``: they go to host memory every so many batches (``eval_accumulation_steps``); only up to there do they grow here.
    ``live_bytes``: in use right after the last batch seen was kept.
    """
    most_kept = min(batches_total, moved_every) if moved_every else batches_total
    more = max(0, most_kept - batches_seen) * kept_per_batch
    at_a_step = peak_bytes + more
    at_the_last_join = live_bytes + more + ((most_kept - 1) * kept_per_batch if joins and most_kept > 1 else 0)
    return max(0.0, at_a_step - peak_bytes, at_the_last_join - peak_bytes)


# ---------------------------------------------------------------------------------------------------------------------------------
# The trial


@dataclass(kw_only=True)
class _Kept:
    """What evaluation has kept so far."""

    container_bytes: dict[int, int] = field(default_factory=dict)
    batches: int = 0
    live_bytes: int = 0


class _Trial:
    """Patches transformers in this process, follows one training, and says what it saw."""

    def __init__(self, plan: Plan, recorder: Recorder, base_bytes: int) -> None:
        self._plan = plan
        self._recorder = recorder
        self._base_bytes = base_bytes
        self._steps = 0
        self._ballast: list[Any] = []
        self._kept = _Kept()
        self._trainer: Any = None
        self._generated: list[int] = []
        self._total_batches = 0
        self._halved = False

    # -- patches

    def install(self) -> None:
        """Patches ``Trainer.__init__``, because the script builds its own trainer, and the container of the evaluation loop."""
        module: Any = importlib.import_module("transformers.trainer")
        container = module.EvalLoopContainer
        trial, init, add = self, module.Trainer.__init__, container.add

        @functools.wraps(init)
        def begun(self: Any, *args: Any, **kwargs: Any) -> None:
            init(self, *args, **kwargs)
            trial.begin(self)

        @functools.wraps(add)
        def counted(self: Any, tensors: Any) -> None:
            add(self, tensors)
            trial.kept(self)

        module.Trainer.__init__ = begun
        container.add = counted
        if not importlib.import_module("huggingface_hub.constants").HF_HUB_OFFLINE:
            raise RuntimeError("a trial runs with HF_HUB_OFFLINE=1: everything it needs was fetched before")

    def begin(self, trainer: Any) -> None:
        """The script has built its trainer: from here on it is followed."""
        args = trainer.args
        if args.train_batch_size != args.per_device_train_batch_size:
            raise NotCovered(f"{args.n_gpu} cards in one process: one card is covered; CUDA_VISIBLE_DEVICES chooses it")
        if getattr(args, "train_sampling_strategy", "random") == "batch_rebalance":
            raise NotCovered("train_sampling_strategy=batch_rebalance varies the micro-batch, so no trial can bound it")
        self._trainer = trainer
        batches, step, evaluation, predict = (
            trainer.get_batch_samples,
            trainer.training_step,
            trainer.get_eval_dataloader,
            trainer.prediction_step,
        )

        def with_ballast(*arguments: Any) -> Any:
            samples, items = batches(*arguments)
            self.hold(samples)
            return samples, items

        def watched_step(model: Any, inputs: Any, *arguments: Any) -> Any:
            self.saw_micro_batch(_rows(inputs))
            inputs = self.perhaps_half(inputs)
            loss = step(model, inputs, *arguments)
            self._recorder.loss(finite=bool(loss.isfinite()))
            return loss

        def watched_prediction(model: Any, inputs: Any, *arguments: Any, **options: Any) -> Any:
            self.saw_validation_batch(_rows(inputs))
            return predict(model, inputs, *arguments, **options)

        trainer._get_train_sampler = self.sampler
        trainer.get_batch_samples = with_ballast
        trainer.training_step = watched_step
        trainer.get_eval_dataloader = lambda dataset=None: evaluation(self.validation(trainer, dataset))
        trainer.prediction_step = watched_prediction
        trainer.add_callback(_callback(self))

    # -- the worst data, as much of it as the run holds

    def sampler(self, dataset: Any) -> Any:
        lengths = lengths_of(dataset)
        plan, size = self._plan, self._trainer.args.train_batch_size
        before, after = plan.steps * plan.accumulation, (plan.steps_after + 1) * plan.accumulation + plan.halves * plan.accumulation
        self._recorder.measured(train_samples=len(lengths))
        self._recorder.note(f"worst data: batches of the longest samples of {len(lengths)}, up to {max(lengths)} label tokens")
        if plan.on_cpu:
            return _fixed_sampler(worst_batches(lengths, size, before + after))
        again = varied_batches(lengths, size, plan.steps_after * plan.accumulation)
        rest = worst_batches(lengths, size, before + after)  # whatever is read ahead
        return _fixed_sampler([*varied_batches(lengths, size, before), *again, *rest])

    def hold(self, samples: list[Any]) -> None:
        """Trainer puts a whole accumulated batch on the device before its first micro-batch; copies stand for the rest of it."""
        missing = self._plan.real_accumulation - self._plan.accumulation
        if samples and missing > 0:
            largest = max(samples, key=lambda sample: sum(tensor_bytes(value) for value in sample.values()))
            self._ballast = [{key: value.clone() for key, value in largest.items() if hasattr(value, "clone")} for _ in range(missing)]

    def validation(self, trainer: Any, dataset: Any) -> Any:
        import torch

        if isinstance(dataset, dict):
            raise NotCovered("several evaluation data sets are not covered; give one")
        lengths, size = lengths_of(dataset), trainer.args.eval_batch_size
        self._total_batches = math.ceil(len(lengths) / size)
        self._recorder.measured(validation_samples=len(lengths), validation_batches_total=self._total_batches)
        if len(lengths) < size:
            self._recorder.note(
                f"validation has {len(lengths)} samples, fewer than an evaluation micro-batch of {size}: one batch of them is run"
            )
        return torch.utils.data.Subset(dataset, longest_first(lengths)[: self._plan.validation_batches * size])

    # -- what happens

    def train_begins(self, model: Any) -> None:
        self._observe(model)
        if self._plan.generates:
            self._force_full_generation(model)
        self._recorder.phase(Phase.TRAIN)

    def step_ended(self, control: Any) -> None:
        """One optimizer step is through; the evaluation comes after the last of the first steps, the end after the last of all."""
        self._steps += 1
        self._recorder.batch()
        control.should_log = control.should_save = control.should_evaluate = False
        if self._steps == self._plan.steps:
            self._recorder.phase(Phase.VALIDATE)
            control.should_evaluate = True
            control.should_save = self._plan.on_cpu  # a checkpoint takes host memory, which is what a CPU's budget is made of
        elif self._steps >= self._plan.steps + self._plan.steps_after:
            self._end_or_halve()

    def _end_or_halve(self) -> None:
        """The end, save where time per sample must be held against that of half a micro-batch: some steps of those come first."""
        plan = self._plan
        more = -(-plan.halves // plan.accumulation) if self._trainer.args.train_batch_size > 1 else 0
        if self._steps >= plan.steps + plan.steps_after + more:
            raise TrialDone
        if not self._halved:
            self._halved = True
            self._recorder.halves_begin()

    def perhaps_half(self, inputs: Any) -> Any:
        """The first half of a micro-batch's samples, at the end of a trial whose driver may spill."""
        if not self._halved:
            return inputs
        rows = _rows(inputs)
        return {
            key: value[: rows // 2] if hasattr(value, "shape") and value.shape[:1] == (rows,) else value for key, value in inputs.items()
        }

    def evaluated(self) -> None:
        self._measure_growth()
        if self._plan.generates and self._generated:
            self._recorder.note(f"generation ran to {max(self._generated)} tokens, its full length")
        self._recorder.phase(Phase.TRAIN_AGAIN)

    # -- what was seen

    def saw_micro_batch(self, rows: int) -> None:
        self._recorder.observe(micro_batch=min(rows, self._recorder.observed.get("micro_batch", rows)))

    def saw_validation_batch(self, rows: int) -> None:
        """A set smaller than a batch, and a set's last batch, are smaller; the largest counts."""
        if rows < self._trainer.args.eval_batch_size and self._total_batches <= 1:
            return
        self._recorder.observe(val_micro_batch=max(rows, self._recorder.observed.get("val_micro_batch", rows)))

    def kept(self, container: Any) -> None:
        self._kept.container_bytes[id(container)] = tensor_bytes(container.tensors) + tensor_bytes(container.arrays)

    def validation_batch_ended(self) -> None:
        kept = self._kept
        kept.batches += 1
        kept.live_bytes = self._live_bytes()
        self._recorder.batch()

    def _live_bytes(self) -> int:
        if self._plan.on_cpu:
            return max(0, procfs.data_bytes() - self._base_bytes)
        import torch

        return int(torch.cuda.memory_allocated())

    def _measure_growth(self) -> None:
        kept, args = self._kept, self._trainer.args
        if not kept.batches:
            return
        per_batch = sum(kept.container_bytes.values()) / kept.batches
        left = self._total_batches - kept.batches
        host_bytes = per_batch * self._total_batches
        moved = args.eval_accumulation_steps
        if left > 0:
            more = needed_beyond_peak(
                kept_per_batch=per_batch,
                batches_seen=kept.batches,
                batches_total=self._total_batches,
                live_bytes=kept.live_bytes,
                peak_bytes=self._recorder.peak_so_far(),
                joins=bool(args.eval_do_concat_batches),
                moved_every=None if self._plan.on_cpu else moved,  # on a CPU host memory is the device
            )
            self._recorder.measured(growth_bytes_per_batch=more / left)
        self._recorder.fact(validation_keeps_bytes_per_batch=round(per_batch), validation_keeps_bytes_in_all=round(host_bytes))
        if moved:
            in_all = f"{host_bytes / 2**20:.0f} MiB by the end of an evaluation"
            self._recorder.note(f"eval_accumulation_steps={moved} moves predictions to host memory: {in_all}")

    def _observe(self, model: Any) -> None:
        args = self._trainer.args
        config = getattr(model, "peft_config", None)
        rank = next(iter(config.values())).r if config else 0
        self._recorder.observe(
            device=args.device.type,
            checkpointing=bool(getattr(model, "is_activation_checkpointing", False)),
            precision="bf16" if args.bf16 else "fp16" if args.fp16 else "fp32",
            optimizer=str(getattr(args.optim, "value", args.optim)),
            lora=rank,
        )
        parameters = list(model.parameters())
        self._recorder.fact(
            parameters=sum(one.numel() for one in parameters),
            trainable_parameters=sum(one.numel() for one in parameters if one.requires_grad),
            weights_dtype=str(parameters[0].dtype).removeprefix("torch."),
            use_cache=bool(getattr(model.config, "use_cache", False)),
            effective_batch=args.per_device_train_batch_size * self._plan.real_accumulation,
        )

    def _force_full_generation(self, model: Any) -> None:
        generation = model.generation_config
        generation.min_length = WITHOUT_END
        if (first := getattr(generation, "no_timestamps_token_id", None)) is not None:  # a timestamp would end Whisper's segment early
            generation.suppress_tokens = [*(generation.suppress_tokens or ()), *range(first + 1, model.config.vocab_size)]
        wanted = self._trainer.args.generation_max_length or model.generation_config.max_length
        generate = model.generate

        def watched(*args: Any, **kwargs: Any) -> Any:
            tokens = generate(*args, **kwargs)
            self._generated.append(int(tokens.shape[-1]))
            if wanted and tokens.shape[-1] < wanted:
                raise NotCovered(f"generation stopped after {tokens.shape[-1]} of {wanted} tokens, so its memory peak was not seen")
            self._recorder.observe(generation_length=wanted)
            return tokens

        model.generate = watched


def _rows(inputs: Mapping[str, Any]) -> int:
    return next(int(value.shape[0]) for value in inputs.values() if hasattr(value, "shape"))


def _fixed_sampler(indices: Sequence[int]) -> Any:
    import torch

    class Fixed(torch.utils.data.Sampler[int]):  # type: ignore[misc]
        def __iter__(self) -> Iterator[int]:
            return iter(indices)

        def __len__(self) -> int:
            return len(indices)

    return Fixed()


def _callback(trial: _Trial) -> Any:
    """The trial as a TrainerCallback. It is added last, so that its wishes win over DefaultFlowCallback's."""
    from transformers import TrainerCallback

    class Probe(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            trial.train_begins(model)

        def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            trial._recorder.optimizer_step()

        def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            trial._recorder.batch()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            trial.step_ended(control)

        def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            trial.validation_batch_ended()

        def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            trial.evaluated()

    return Probe()


# ---------------------------------------------------------------------------------------------------------------------------------
# The version guard


def source_hash(name: str) -> str:
    """Hash of the source of ``module:qualified.name``; text saying so where there is none."""
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
        source = inspect.getsource(inspect.unwrap(found))
    except (ImportError, AttributeError, OSError, TypeError) as error:
        return f"missing ({type(error).__name__})"
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def changed(table: Mapping[str, str] = RELIED_UPON) -> tuple[str, ...]:
    """The names in ``table`` whose source is not the one that was checked."""
    return tuple(name for name, expected in table.items() if source_hash(name) != expected)


def check_transformers(table: Mapping[str, str] = RELIED_UPON) -> None:
    """Raises NotCovered unless the installed transformers is one whose inner workings are known here."""
    import transformers

    different = changed(table)
    if different:
        raise NotCovered(
            f"transformers {transformers.__version__} differs from {CHECKED[-1]} in what a trial builds upon: {', '.join(different)}. "
            f"Install a checked version: pip install transformers=={CHECKED[-1]}"
        )
