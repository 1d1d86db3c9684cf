"""Patches transformers in this process, follows one training through its own loop, and says what it saw. Loads transformers."""

from __future__ import annotations

import functools
import importlib
import math
from typing import Any

from transformers import TrainerCallback

from launcher.shared.report import SAID_ACCUMULATION, UPDATES, Phase
from launcher.trainers.transformers.inside import levers, worst
from launcher.trainers.transformers.inside.evaluation import Evaluation
from launcher.trainers.transformers.inside.guard import Hooks, NotCovered
from launcher.trainers.transformers.inside.plan import Plan
from launcher.trainers.transformers.inside.samples import FixedSampler, heaviest_of, rows_of
from launcher.trainers.transformers.inside.sharding import Sharding, is_zero, numel
from launcher.trainers.transformers.native import hf_run
from launcher.trainers.transformers.sharding import NONE
from launcher.worker import loss_scale
from launcher.worker.recorder import Recorder

EXPLODED = 1000.0
"""A loss as many times the first one (or 1, where that was smaller) has left all bounds, finite or not."""


class Follower:
    """Of one trial."""

    def __init__(self, plan: Plan, recorder: Recorder, base_bytes: int) -> None:
        self._plan = plan
        self._recorder = recorder
        self._phase = Phase.SETUP
        self._course: worst.TrialData | None = None
        self._steps = 0
        self._first_loss: float | None = None
        self._ballast: list[Any] = []
        self._trainer: Any = None
        self._sharding: Sharding | None = None
        self._generated: list[int] = []
        self.hooks = Hooks()
        self._evaluation = Evaluation(plan, recorder, self.hooks, base_bytes)
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
            trial._evaluation.kept(self)

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
            if not self._plan.orders.resumes:  # else it is the trial's own
                args.gradient_accumulation_steps = self._plan.orders.accumulation  # what the checkpoint's steps were counted in
            try:
                found: str | None = checked(args)
            finally:
                args.gradient_accumulation_steps = self._plan.orders.trial_accumulation
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
        accelerator = args.accelerator_config
        if args.world_size > 1 and (accelerator.split_batches or accelerator.dispatch_batches or not accelerator.even_batches):
            raise NotCovered(
                "several ranks with split_batches, dispatch_batches or without even_batches in accelerator_config: batches differ"
            )
        if getattr(args, "train_sampling_strategy", "random") == "batch_rebalance":
            raise NotCovered("train_sampling_strategy=batch_rebalance varies the micro-batch, so no trial can bound it")
        self._trainer = trainer
        if self._plan.orders.resumes:
            self._enter(Phase.RESUME)
        self._plan_course(args, trainer.train_dataset)
        self._evaluation.follow(trainer)
        self._head_calls = levers.calls_of(trainer.model.get_output_embeddings())
        batches, step, sampler = trainer.get_batch_samples, trainer.training_step, trainer._get_train_sampler

        def with_ballast(*arguments: Any) -> Any:
            samples, items = batches(*arguments)
            self.hooks.seen("accumulated batches")
            self.hold(samples)
            return samples, items

        def watched_step(model: Any, inputs: Any, *arguments: Any) -> Any:
            self.saw_micro_batch(rows_of(inputs))
            self._recorder.observe(checkpointing=self._checkpointed(model))
            inputs = self.perhaps_half(inputs)
            self._head_calls.clear()
            loss = step(model, inputs, *arguments)
            self._recorder.observe(loss_chunks=max(1, len(self._head_calls) // 2))  # of parts each is computed twice
            self.saw_loss(float(loss))
            return loss

        # the data set is an argument from transformers 4.51 on; before, the method takes the trainer's own
        trainer._get_train_sampler = lambda *given: self.sampler(lambda _: sampler(*given), trainer.train_dataset)
        trainer.get_batch_samples = with_ballast
        trainer.training_step = watched_step
        if not self._plan.saves:
            trainer.save_model = lambda *_, **__: None  # weights go to the host tensor by tensor
        trainer.add_callback(TrialCallback(self))

    # -- the worst data, as much of it as the run holds

    def _plan_course(self, args: Any, dataset: Any) -> None:
        """Which batches come when. The schedule is the full run's: as long as that, though the trial ends before."""
        lengths, plan = worst.lengths_of(dataset), self._plan
        finely = plan.on_cpu and not hasattr(dataset, "loading_sizes")  # audio is a full window whatever its transcript
        whole_only = args.dataloader_drop_last or args.world_size > 1  # ranks get whole batches only
        self._course = worst.course(lengths, plan.orders, micro_batch=args.train_batch_size, drop_last=whole_only, finely=finely)
        if args.max_steps <= 0:
            batches = math.ceil(math.ceil(len(lengths) / args.train_batch_size) / args.world_size)
            per_epoch = math.ceil(batches / plan.orders.accumulation)
            args.max_steps = math.ceil(args.num_train_epochs * per_epoch)
        self._recorder.fact(**{UPDATES: args.max_steps, SAID_ACCUMULATION: plan.orders.accumulation})
        self._half_steps = math.ceil(plan.orders.halves / plan.orders.trial_accumulation) if args.train_batch_size > 1 else 0
        args.max_steps = max(args.max_steps, self._course.end_at + self._half_steps)
        self._recorder.measured(train_samples=len(lengths))
        self._recorder.note(f"worst data: batches of the longest samples of {len(lengths)}, up to {max(lengths)} label tokens")

    def sampler(self, usual: Any, dataset: Any) -> Any:
        assert self._course is not None
        self.hooks.seen("training samples")
        heaviest = heaviest_of(dataset) if self._plan.on_cpu else None
        args, order = self._trainer.args, worst.with_heaviest(self._course.order, heaviest)
        return FixedSampler(worst.dealt(order, args.train_batch_size, args.world_size), beside=usual(dataset))

    def hold(self, samples: list[Any]) -> None:
        """Trainer puts a whole accumulated batch on the device before its first micro-batch; copies stand for the rest of it."""
        missing = self._plan.orders.accumulation - self._plan.orders.trial_accumulation
        if samples and missing > 0:
            self._ballast = [{key: value.clone() for key, value in samples[0].items() if hasattr(value, "clone")} for _ in range(missing)]

    # -- what happens

    def _enter(self, phase: Phase) -> None:
        self._phase = self._evaluation.phase = phase
        self._recorder.phase(phase)

    def train_begins(self, model: Any) -> None:
        loss_scale.skip_nothing(getattr(self._trainer.accelerator, "scaler", None), model.parameters())
        self._observe(model)
        self._sharding = Sharding(self._trainer.args.world_size, self._trainer.args.device.type)
        self._sharding.watch(self._trainer.model)
        if self._plan.generates:
            from launcher.trainers.transformers.inside.generation import force_full_length

            self._generated = force_full_length(model, self._trainer.args.generation_max_length, self._recorder)
        if not self._plan.orders.resumes:
            self._enter(Phase.TRAIN)

    def optimizer_step(self, optimizer: Any) -> None:
        if getattr(self._trainer.accelerator, "optimizer_step_was_skipped", False):  # of fp16: no step, so no states yet
            self._recorder.note(loss_scale.SKIPPED)
            return
        self._recorder.stepped(optimizer)
        self._recorder.optimizer_step()
        if self._sharding is not None:
            self._see_optimizer(optimizer)
            self._see_sharding(self._sharding, optimizer)

    def _see_optimizer(self, optimizer: Any) -> None:
        """Once, as its sharding: its states are there now."""
        args = self._trainer.args
        name, kind = str(getattr(args.optim, "value", args.optim)), self._trainer.get_optimizer_cls_and_kwargs(args, self._trainer.model)[0]
        words, each = levers.optimizer_told(optimizer)
        self._recorder.observe(optimizer=levers.optimizer_seen(optimizer, name, kind), offload=levers.offload_seen(optimizer))
        self._recorder.fact(state_bytes_per_weight=round(each, 4))
        self._recorder.note(words)

    def _see_sharding(self, sharding: Sharding, optimizer: Any) -> None:
        """Once: the optimizer's states are there now."""
        seen = sharding.seen(self._trainer.model, optimizer)
        self._recorder.observe(sharding=seen)
        if seen != NONE:
            self._recorder.note(sharding.told(self._trainer.model, optimizer))
        self._sharding = None

    def micro_batch_ended(self) -> None:
        self._recorder.batch()
        if self._sharding is not None:
            self._sharding.between(self._trainer.model)

    def validation_batch_ended(self) -> None:
        self._evaluation.batch_ended()

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
            control.should_save = self._saves()
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
        rows = rows_of(inputs)
        halved = {key for key, value in inputs.items() if hasattr(value, "shape") and value.shape[:1] == (rows,)}
        return {key: value[: rows // 2] if key in halved else value for key, value in inputs.items()}

    def epoch_ended(self, control: Any) -> None:
        """What a run does at the end of an epoch is done once, where the trial validates."""
        control.should_save = control.should_evaluate = False

    def evaluated(self) -> None:
        if self._phase is not Phase.VALIDATE:  # at the start (eval_on_start), or the last one
            return
        self._evaluation.measure()
        if self._plan.generates and self._generated:
            self._recorder.note(f"generation ran to {max(self._generated)} tokens, its full length")
        self._enter(Phase.SAVE if self._saves() else Phase.TRAIN_AGAIN)

    def _saves(self) -> bool:
        return str(getattr(self._trainer.args.save_strategy, "value", self._trainer.args.save_strategy)) != "no"

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
        if self._phase is Phase.SAVE:
            self._enter(Phase.TRAIN_AGAIN)
        self._recorder.observe(micro_batch=max(rows, self._recorder.observed.get("micro_batch", rows)))

    def _checkpointed(self, model: Any) -> bool | float:
        """Whether layers are checkpointed; the share of them where it is the asked one."""
        on = any(bool(getattr(model, name, False)) for name in ("is_activation_checkpointing", "is_gradient_checkpointing"))
        callbacks = self._trainer.callback_handler.callbacks
        share = next((one.checkpointing_share for one in callbacks if hasattr(one, "checkpointing_share")), None)
        return share if on and share is not None and hf_run.has_first(model, share) else on

    def _observe(self, model: Any) -> None:
        args = self._trainer.args
        config = getattr(model, "peft_config", None)
        rank = next(iter(config.values())).r if config else 0
        self._recorder.observe(
            device=args.device.type,
            lora=rank,
            freeze=levers.frozen(model),
        )
        parameters = list(model.parameters())
        if args.fsdp:  # casts by a policy of its own
            self._recorder.observe(precision="bf16" if args.bf16 else "fp16" if args.fp16 else "fp32")
        elif is_zero(parameters):  # has cast them
            self._recorder.observe(precision={"torch.bfloat16": "bf16", "torch.float16": "fp16"}.get(str(parameters[0].dtype), "fp32"))
        else:
            levers.watch_precision(model, args.device.type, lambda seen: self._recorder.observe(precision=seen))
        self._recorder.fact(
            parameters=sum(map(numel, parameters)),
            trainable_parameters=sum(numel(one) for one in parameters if one.requires_grad),
            weights_dtype=str(parameters[0].dtype).removeprefix("torch."),
            use_cache=bool(getattr(model.config, "use_cache", False)),
            effective_batch=args.per_device_train_batch_size * self._plan.orders.accumulation * args.world_size,
        )


class TrialCallback(TrainerCallback):  # type: ignore[misc]
    """The trial as a TrainerCallback. It is added last, so that its wishes win over DefaultFlowCallback's."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self._follower.train_begins(model)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any) -> None:
        self._follower.optimizer_step(optimizer)

    def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._follower.micro_batch_ended()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._follower.step_ended(args, control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._follower.epoch_ended(control)

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._follower.validation_batch_ended()

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._follower.evaluated()
