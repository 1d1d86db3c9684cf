"""Takes orders whose payload is a rung as a built-in trainer's command line; runs a truncated, real training of it on the worst data.

The very script that the full run launches is run, with the very words, through transformers' own loop, loaders, evaluation and optimizer,
and to its own end: the best checkpoint loaded, the model saved, the last evaluation. Replaced are which samples come (``worst``), how
many, and where it writes. Generation is forced to its full length. What becomes of every argument in here is in ``table``.
What it relies upon is listed in ``guard.RELIANCES``; what of it is not seen to happen makes the trial vacuous.

Payload: ``script`` (dotted module with ``main(argv)``), ``argv`` (this rung's own words), ``imports`` (modules to import
before the budget is taken), ``generates`` (bool: evaluation generates text).
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.shared import procfs
from launcher.shared.orders import Orders
from launcher.shared.report import SAID_ACCUMULATION, UPDATES, Phase
from launcher.trainers.transformers.environment import IMPORTS
from launcher.trainers.transformers.inside import kept as keeping
from launcher.trainers.transformers.inside import worst
from launcher.trainers.transformers.inside.guard import Hooks, NotCovered, check_transformers, untried
from launcher.worker import budget
from launcher.worker.recorder import Recorder

WITHOUT_END = 1 << 20
"""``min_length`` that keeps ``generate`` from stopping early: it runs to its own maximum, where the key-value cache peaks."""

HALVES = 2
"""The first warms up."""

MOST_ACCUMULATION = 2
"""Micro-batches per optimizer step in a trial. The rest of an accumulated batch is held as copies: see ``_Trial.hold``."""

EXPLODED = 1000.0
"""A loss as many times the first one (or 1, where that was smaller) has left all bounds, finite or not."""


def run(orders: Orders, recorder: Recorder) -> None:
    """The trial. Returns when it went through; raises whatever ended it."""
    for name in (*IMPORTS, *orders.payload["imports"]):
        importlib.import_module(name)
    taken = budget.take(orders)  # at the very place where the full run takes it: what comes before is base, and not needed
    recorder.budget(taken)
    check_transformers()
    if said := untried():
        recorder.note(said)
    plan = Plan.of(orders)
    script = importlib.import_module(plan.script)
    script.arguments(plan.full_argv)  # what the full run would refuse is refused now
    for complaint in budget.complaints(orders.device):
        recorder.note(complaint)
    recorder.phase(Phase.SETUP)
    trial = _Trial(plan, recorder, taken.base_bytes)
    trial.install()
    script.main(plan.argv)
    if not trial.finished:
        raise RuntimeError("the trainer ended before the trial had seen its steps")
    if unseen := trial.hooks.unseen():
        recorder.hint(unseen)  # without the last phase the verdict is "vacuous", and these are its words
    else:
        recorder.phase(Phase.DONE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The orders, read: what is asked of the trainer and how much of it."""

    script: str
    argv: tuple[str, ...]
    """The rung's words, followed by ``replaced``; the last word counts."""
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
        real = max(orders.accumulation, 1)
        output_dir, on_cpu = str(orders.scratch / "run"), orders.device == "cpu"
        given = {**replaced(on_cpu=on_cpu, accumulation=real), "output_dir": output_dir}
        return cls(
            script=orders.payload["script"],
            argv=(*orders.payload["argv"], *(word for key, value in given.items() for word in (f"--{key}", str(value)))),
            full_argv=(*orders.payload["argv"], "--output_dir", output_dir),
            generates=bool(orders.payload["generates"]),
            on_cpu=on_cpu,
            accumulation=given["gradient_accumulation_steps"],
            real_accumulation=real,
            steps=max(orders.steps, 2),
            validation_batches=max(orders.validation_batches, 2),
            steps_after=max(orders.steps_after, 1),
            halves=HALVES if orders.may_spill else 0,
        )


def replaced(*, on_cpu: bool, accumulation: int) -> dict[str, Any]:
    """The arguments that a trial gives another value; ``table`` says of each why that hides no need.

    On a CPU nothing but the accumulation: what is saved, loaded and logged takes the memory that the budget is made of.
    """
    always = {"output_dir": "", "gradient_accumulation_steps": min(accumulation, MOST_ACCUMULATION), "push_to_hub": False}
    on_a_card = {"save_strategy": "no", "load_best_model_at_end": False, "report_to": "none"}
    return always if on_cpu else {**always, **on_a_card}


# ---------------------------------------------------------------------------------------------------------------------------------
# The trial


class _Trial:
    """Patches transformers in this process, follows one training, and says what it saw."""

    def __init__(self, plan: Plan, recorder: Recorder, base_bytes: int) -> None:
        self._plan = plan
        self._recorder = recorder
        self._base_bytes = base_bytes
        self._phase = Phase.SETUP
        self._course: worst.Course | None = None
        self._steps = 0
        self._first_loss: float | None = None
        self._ballast: list[Any] = []
        self._kept = keeping.Kept()
        self._held: list[Any] = []
        self._trainer: Any = None
        self._generated: list[int] = []
        self._validation_samples = self._total_batches = 0
        self.hooks = Hooks()
        self.finished = False
        self._half_steps = 0
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
        self._begin_anew_from_checkpoints()
        if not importlib.import_module("huggingface_hub.constants").HF_HUB_OFFLINE:
            raise RuntimeError("a trial runs with HF_HUB_OFFLINE=1: everything it needs was fetched before")

    def _begin_anew_from_checkpoints(self) -> None:
        """A run that goes on from a checkpoint loads it in the trial as well, weights and optimizer state, and counts its steps from 0."""
        ours: Any = importlib.import_module("launcher.trainers.transformers.native.hf_run")
        states: Any = importlib.import_module("transformers.trainer_callback").TrainerState
        checked, loaded = ours.checked_resume, states.load_from_json

        def checked_as_the_run(args: Any) -> str | None:
            args.gradient_accumulation_steps = self._plan.real_accumulation  # what the checkpoint's steps were counted in
            try:
                found: str | None = checked(args)
            finally:
                args.gradient_accumulation_steps = self._plan.accumulation
            if found is not None:
                self._recorder.note(f"goes on from {found}, which was loaded")
            return found

        def from_the_first_step(path: str) -> Any:
            state = loaded(path)
            state.global_step, state.epoch, state.best_global_step, state.best_model_checkpoint = 0, 0.0, None, None
            return state

        ours.checked_resume, states.load_from_json = checked_as_the_run, from_the_first_step

    def begin(self, trainer: Any) -> None:
        """The script has built its trainer: from here on it is followed."""
        args = trainer.args
        if args.train_batch_size != args.per_device_train_batch_size:
            raise NotCovered(f"{args.n_gpu} cards in one process: one card is covered; CUDA_VISIBLE_DEVICES chooses it")
        if getattr(args, "train_sampling_strategy", "random") == "batch_rebalance":
            raise NotCovered("train_sampling_strategy=batch_rebalance varies the micro-batch, so no trial can bound it")
        self._trainer = trainer
        self._plan_course(args, trainer.train_dataset)
        batches, step, evaluation, predict = (
            trainer.get_batch_samples,
            trainer.training_step,
            trainer.get_eval_dataloader,
            trainer.prediction_step,
        )
        train_sampler, eval_sampler = trainer._get_train_sampler, trainer._get_eval_sampler

        def with_ballast(*arguments: Any) -> Any:
            samples, items = batches(*arguments)
            self.hooks.seen("accumulated batches")
            self.hold(samples)
            return samples, items

        def watched_step(model: Any, inputs: Any, *arguments: Any) -> Any:
            self.saw_micro_batch(_rows(inputs))
            inputs = self.perhaps_half(inputs)
            loss = step(model, inputs, *arguments)
            self.saw_loss(float(loss))
            return loss

        def watched_prediction(model: Any, inputs: Any, *arguments: Any, **options: Any) -> Any:
            self.saw_validation_batch(_rows(inputs))
            return predict(model, inputs, *arguments, **options)

        # the data set is an argument from transformers 4.51 on; before, the method takes the trainer's own
        trainer._get_train_sampler = lambda *given: self.sampler(lambda _: train_sampler(*given), trainer.train_dataset)
        trainer._get_eval_sampler = lambda dataset: self.validation_sampler(eval_sampler, dataset)
        trainer.get_batch_samples = with_ballast
        trainer.training_step = watched_step
        trainer.get_eval_dataloader = lambda dataset=None: evaluation(self.validation(trainer, dataset))
        trainer.prediction_step = watched_prediction
        if self._plan.on_cpu and trainer.compute_metrics is not None:
            trainer.compute_metrics = self._of_the_whole_set(trainer.compute_metrics)
        if not self._plan.on_cpu:
            trainer.save_model = lambda *_, **__: None  # weights go to the host tensor by tensor
        trainer.add_callback(_callback(self))

    # -- the worst data, as much of it as the run holds

    def _plan_course(self, args: Any, dataset: Any) -> None:
        """Which batches come when. The schedule is the full run's: as long as that, though the trial ends before."""
        lengths, plan = worst.lengths_of(dataset), self._plan
        self._course = worst.course(
            lengths,
            micro_batch=args.train_batch_size,
            accumulation=plan.accumulation,
            drop_last=args.dataloader_drop_last,
            steps=plan.steps,
            steps_after=plan.steps_after,
            finely=plan.on_cpu and not hasattr(dataset, "loading_sizes"),  # audio is a full window whatever its transcript
        )
        if args.max_steps <= 0:
            per_epoch = math.ceil(math.ceil(len(lengths) / args.train_batch_size) / plan.real_accumulation)
            args.max_steps = math.ceil(args.num_train_epochs * per_epoch)
        self._recorder.fact(**{UPDATES: args.max_steps, SAID_ACCUMULATION: plan.real_accumulation})
        self._half_steps = math.ceil(plan.halves / plan.accumulation) if args.train_batch_size > 1 else 0
        args.max_steps = max(args.max_steps, self._course.end_at + self._half_steps)
        self._recorder.measured(train_samples=len(lengths))
        self._recorder.note(f"worst data: batches of the longest samples of {len(lengths)}, up to {max(lengths)} label tokens")

    def sampler(self, usual: Any, dataset: Any) -> Any:
        assert self._course is not None
        self.hooks.seen("training samples")
        heaviest = _heaviest(dataset) if self._plan.on_cpu else None
        return _fixed_sampler(worst.with_heaviest(self._course.order, heaviest), beside=usual(dataset))

    def hold(self, samples: list[Any]) -> None:
        """Trainer puts a whole accumulated batch on the device before its first micro-batch; copies stand for the rest of it."""
        missing = self._plan.real_accumulation - self._plan.accumulation
        if samples and missing > 0:
            self._ballast = [{key: value.clone() for key, value in samples[0].items() if hasattr(value, "clone")} for _ in range(missing)]

    def validation(self, trainer: Any, dataset: Any) -> Any:
        import torch

        dataset = trainer.eval_dataset if dataset is None else dataset
        if isinstance(dataset, dict):
            raise NotCovered("several evaluation data sets are not covered; give one")
        self._kept = keeping.Kept()
        lengths, size, drop_last = worst.lengths_of(dataset), trainer.args.eval_batch_size, trainer.args.dataloader_drop_last
        self._validation_samples = len(lengths)
        self._total_batches = len(lengths) // size if drop_last else math.ceil(len(lengths) / size)
        self._recorder.measured(validation_samples=len(lengths), validation_batches_total=self._total_batches)
        if len(lengths) < size:
            self._recorder.note(
                f"validation has {len(lengths)} samples, fewer than an evaluation micro-batch of {size}: one batch of them is run"
            )
        at_least = self._plan.validation_batches if self._phase is Phase.VALIDATE else 1
        chosen = worst.evaluated(lengths, size=size, at_least=at_least, drop_last=drop_last, short_too=not self._plan.generates)
        heaviest = _heaviest(dataset) if self._plan.on_cpu else None
        return torch.utils.data.Subset(dataset, worst.with_heaviest(chosen, heaviest))

    def validation_sampler(self, usual: Any, subset: Any) -> Any:
        self.hooks.seen("validation samples")
        whole = getattr(subset, "dataset", subset)
        return _fixed_sampler(range(len(subset)), beside=usual(whole))

    # -- what happens

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._recorder.phase(phase)

    def train_begins(self, model: Any) -> None:
        self._observe(model)
        if self._plan.generates:
            self._force_full_generation(model)
        self._enter(Phase.TRAIN)

    def step_ended(self, args: Any, control: Any) -> None:
        """One optimizer step is through; the evaluation comes after one of longest batches, and so does the end."""
        assert self._course is not None
        self._steps += 1
        self._recorder.batch()
        control.should_save = control.should_evaluate = False
        control.should_log = str(getattr(args.logging_strategy, "value", args.logging_strategy)) != "no"
        if self._steps == self._course.validate_at:
            self._enter(Phase.VALIDATE)
            control.should_evaluate = True
            control.should_save = str(getattr(args.save_strategy, "value", args.save_strategy)) != "no"
        elif self._steps == self._course.end_at and self._half_steps:
            self._halved = True
            self._recorder.halves_begin()
        elif self._steps >= self._course.end_at + self._half_steps:
            self.finished = control.should_training_stop = True
            self._enter(Phase.FINISH)

    def perhaps_half(self, inputs: Any) -> Any:
        """The first half of a micro-batch's samples, at the end of a trial whose driver may spill."""
        if not self._halved:
            return inputs
        rows = _rows(inputs)
        halved = {key for key, value in inputs.items() if hasattr(value, "shape") and value.shape[:1] == (rows,)}
        return {key: value[: rows // 2] if key in halved else value for key, value in inputs.items()}

    def epoch_ended(self, control: Any) -> None:
        """What a run does at the end of an epoch is done once, where the trial validates."""
        control.should_save = control.should_evaluate = False

    def evaluated(self) -> None:
        if self._phase is not Phase.VALIDATE:  # at the start (eval_on_start), or the last one
            return
        self._measure_growth()
        if self._plan.generates and self._generated:
            self._recorder.note(f"generation ran to {max(self._generated)} tokens, its full length")
        self._enter(Phase.TRAIN_AGAIN)

    # -- what was seen

    def saw_loss(self, loss: float) -> None:
        """Notes the first loss; one that is not finite, or that many times the first, is a training that learns nothing."""
        if self._first_loss is None:
            self._first_loss = loss
        sound = math.isfinite(loss) and abs(loss) <= EXPLODED * max(1.0, abs(self._first_loss))
        if not sound:
            self._recorder.note(f"the loss went from {self._first_loss:.3g} to {loss:.3g} in {self._steps + 1} steps")
        self._recorder.loss(finite=sound)

    def saw_micro_batch(self, rows: int) -> None:
        """The batch that ends an epoch is smaller; the largest counts."""
        self.hooks.seen("training step")
        self._recorder.observe(micro_batch=max(rows, self._recorder.observed.get("micro_batch", rows)))

    def saw_validation_batch(self, rows: int) -> None:
        """A set smaller than a batch, and a set's last batch, are smaller; the largest counts."""
        self.hooks.seen("validation step")
        self._kept.rows += rows
        if rows < self._trainer.args.eval_batch_size and self._total_batches <= 1:
            return
        self._recorder.observe(val_micro_batch=max(rows, self._recorder.observed.get("val_micro_batch", rows)))

    def kept(self, container: Any) -> None:
        self.hooks.seen("kept")
        self._kept.container_bytes[id(container)] = keeping.tensor_bytes(container.tensors) + keeping.tensor_bytes(container.arrays)
        self._kept.widened_bytes[id(container)] = keeping.widened_bytes(container.tensors)

    def validation_batch_ended(self) -> None:
        kept = self._kept
        kept.batches += 1
        kept.live_bytes = self._live_bytes()
        kept.peak_bytes = self._recorder.peak_so_far()
        if self._phase in (Phase.VALIDATE, Phase.FINISH):
            self._recorder.batch()

    def _live_bytes(self) -> int:
        if self._plan.on_cpu:
            return max(0, procfs.data_bytes() - self._base_bytes)
        import torch

        return int(torch.cuda.memory_allocated())

    def _of_the_whole_set(self, compute: Any) -> Any:
        """``compute_metrics``, which in the trial's validation is called once more with as many rows as the whole set has."""

        @functools.wraps(compute)
        def weighed(prediction: Any, **options: Any) -> Any:
            result = compute(prediction, **options)
            if self._phase is Phase.VALIDATE and options.get("compute_result", True):
                self._kept.metrics_bytes = self._metrics_bytes(compute, prediction)
            return result

        return weighed

    def _metrics_bytes(self, compute: Any, prediction: Any) -> int:
        """What metrics of the whole set need, in bytes in use; 0 where the batches seen were the whole set."""
        by_batch, kept = bool(self._trainer.args.batch_eval_metrics), self._kept
        rows = keeping.rows_to_try(rows_in_all=self._validation_samples, bytes_per_row=kept.bytes_per_row)
        if rows <= kept.rows:
            return 0

        def computed(count: int) -> int:
            self._recorder.phase(Phase.VALIDATE)  # its peak is that of the metrics alone
            size = min(count, self._trainer.args.eval_batch_size) if by_batch else count
            for _ in range(math.ceil(count / size) - 1):
                compute(_repeated(prediction, size), compute_result=False)
            compute(_repeated(prediction, size))
            return self._recorder.peak_so_far()

        return keeping.metrics_need(computed, rows=rows, rows_in_all=self._validation_samples)

    def _measure_growth(self) -> None:
        kept, args = self._kept, self._trainer.args
        if not kept.batches:
            return
        size = args.eval_batch_size
        per_batch = kept.bytes_per_row * size
        left = self._total_batches - kept.batches
        host_bytes = kept.bytes_per_row * self._validation_samples
        moved = args.eval_accumulation_steps
        if left > 0:
            more = keeping.needed_beyond_peak(
                kept_per_batch=per_batch,
                batches_seen=kept.rows / size,
                batches_total=self._validation_samples / size,
                live_bytes=kept.live_bytes,
                peak_bytes=kept.peak_bytes,
                joins=bool(args.eval_do_concat_batches),
                moved_every=None if self._plan.on_cpu else moved,  # on a CPU host memory is the device
            )
            widened = sum(kept.widened_bytes.values()) / kept.rows * self._validation_samples if self._plan.on_cpu and kept.rows else 0
            need = max(kept.peak_bytes + more, kept.metrics_bytes, kept.live_bytes + host_bytes - kept.bytes_per_row * kept.rows + widened)
            seen = max(kept.peak_bytes, self._recorder.peak_so_far())
            self._recorder.measured(growth_bytes_per_batch=max(0.0, need - seen) / left)
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
            checkpointing=any(bool(getattr(model, name, False)) for name in ("is_activation_checkpointing", "is_gradient_checkpointing")),
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
        from transformers import StoppingCriteriaList

        generation = model.generation_config
        generation.min_length = WITHOUT_END
        if (first := getattr(generation, "no_timestamps_token_id", None)) is not None:  # a timestamp would end Whisper's segment early
            generation.suppress_tokens = [*(generation.suppress_tokens or ()), *range(first + 1, model.config.vocab_size)]
        wanted = self._trainer.args.generation_max_length or model.generation_config.max_length
        generate = model.generate

        def watched(*args: Any, stopping_criteria: Any = None, **kwargs: Any) -> Any:
            limit = _limit(generation.eos_token_id)
            tokens = generate(*args, stopping_criteria=StoppingCriteriaList([*(stopping_criteria or ()), limit]), **kwargs)
            length = int(tokens.shape[-1])
            if wanted and length < wanted and limit.cut:
                length = limit.length
            self._generated.append(length)
            if wanted and length < wanted:
                raise NotCovered(f"generation stopped after {length} of {wanted} tokens, so its memory peak was not seen")
            self._recorder.observe(generation_length=wanted)
            return tokens

        model.generate = watched


def _limit(ends: int | Sequence[int] | None) -> Any:
    """Stops nothing, and sees how long a generation became, its prompt included, and whether it was cut or had ended by itself.

    Whisper gives back what it generated without the prompt; before transformers 5 the longest length counts the prompt too.
    """
    import torch
    from transformers import StoppingCriteria

    class Limit(StoppingCriteria):  # type: ignore[misc]
        length, cut = 0, False

        def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
            end = torch.as_tensor([] if ends is None else ends, dtype=input_ids.dtype, device=input_ids.device).reshape(-1)
            self.length = max(self.length, int(input_ids.shape[-1]))
            self.cut = not bool(torch.isin(input_ids[:, -1], end).all())
            return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)

    return Limit()


def _rows(inputs: Mapping[str, Any]) -> int:
    return next(int(value.shape[0]) for value in inputs.values() if hasattr(value, "shape"))


def _repeated(prediction: Any, rows: int) -> Any:
    """An EvalPrediction of ``rows`` rows: those of ``prediction``, again and again."""
    more = {name: keeping.repeated(value, rows) for name in ("losses", "inputs") if (value := getattr(prediction, name, None)) is not None}
    return type(prediction)(
        predictions=keeping.repeated(prediction.predictions, rows), label_ids=keeping.repeated(prediction.label_ids, rows), **more
    )


def _heaviest(dataset: Any) -> int | None:
    """The sample whose loading takes most memory, where a built-in trainer's data can tell; None where all are alike."""
    weights = getattr(dataset, "loading_sizes", None)
    sizes = weights() if weights is not None else ()
    return max(range(len(sizes)), key=sizes.__getitem__) if sizes else None


def _fixed_sampler(indices: Sequence[int], *, beside: Any) -> Any:
    """A sampler of ``indices`` that keeps what the run's own one (``beside``) keeps: an order of the whole set."""
    import torch

    class Fixed(torch.utils.data.Sampler[int]):  # type: ignore[misc]
        def __iter__(self) -> Iterator[int]:
            usual = iter(beside if beside is not None else ())
            next(usual, None)
            yield from indices
            del usual

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
            trial.step_ended(args, control)

        def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            trial.epoch_ended(control)

        def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            trial.validation_batch_ended()

        def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            trial.evaluated()

    return Probe()
