"""Hooks into transformers' ``Trainer``: steps as it counts them, an evaluation right after them, then training again.

Its loop decides when to evaluate and to save by callbacks, so a callback steers it: both once, at one step. Nothing is cut by
ending its data loader; after the step that follows, training is stopped, so that the script's own end comes. ``generate`` is
held to its full length, whoever calls it: an early end of sentence hides the largest key/value cache, and where a model trains on what it
has generated (GRPO), the longest rows.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

from ....common.report import SAID_ACCUMULATION, UPDATES, WORLD_SIZE
from ....inside.after_import import Hook
from ....inside.instrument import Instrument

NEVER_ENDS = 1 << 20


def hooks(instrument: Instrument) -> dict[str, tuple[str, Hook]]:
    """Module -> (a name that must be in it, what is done with it when it has been imported)."""
    return {
        "transformers.trainer": ("TrainerCallback", lambda module: install(instrument, module)),
        "transformers.generation.utils": ("GenerationMixin", hold_to_full_length),
        # ZeRO collects gradients in buckets as they are made: its training goes on for real until a validation comes
        "deepspeed.runtime.engine": ("DeepSpeedEngine", lambda _: vars(instrument).update(start_forwarding=lambda: None)),
    }


def install(instrument: Instrument, module: Any) -> None:
    """Patches ``transformers.trainer``."""
    trainer = module.Trainer
    made, evaluate, loader = trainer.__init__, trainer.evaluate, trainer.get_eval_dataloader

    class Probe(module.TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            if instrument.recorder is not None:
                instrument.recorder.observe(micro_batch=args.per_device_train_batch_size)
                instrument.recorder.fact(
                    samples=args.per_device_train_batch_size,
                    **{SAID_ACCUMULATION: args.gradient_accumulation_steps, WORLD_SIZE: args.world_size, UPDATES: state.max_steps},
                )
                instrument.arrives.given(_fields(args, model))
            instrument.training()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            control.should_save = control.should_log = control.should_evaluate = False
            if instrument.ends_training():
                control.should_training_stop = True
            elif instrument.proven and not instrument.validated and _enough(instrument, state):
                saves = args.save_strategy != module.SaveStrategy.NO
                if args.eval_strategy != "no" and self.trainer.eval_dataset is not None:
                    control.should_evaluate, control.should_save = True, saves
                elif instrument.steps >= instrument.wanted:
                    control.should_training_stop = True  # what comes after training is the script's own affair
                    control.should_save = saves and "goes_on" in instrument.orders.payload
            return control

        def on_save(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
            if state.global_step < state.max_steps:
                instrument.keep_checkpoint()

        def on_prediction_step(self, *_: Any, **__: Any) -> None:
            instrument.validation_batch()

        def on_evaluate(self, *_: Any, **__: Any) -> None:
            instrument.evaluated()

    @functools.wraps(made)
    def begun(this: Any, *args: Any, **kwargs: Any) -> None:
        instrument.open()
        instrument.passive = True
        made(this, *args, **kwargs)
        probe = Probe()
        probe.trainer = this
        this.add_callback(probe)
        this.args.push_to_hub = this.args.eval_on_start = False

    @functools.wraps(evaluate)
    def evaluated(this: Any, *args: Any, **kwargs: Any) -> Any:
        instrument.validating()
        return evaluate(this, *args, **kwargs)

    @functools.wraps(loader)
    def get_eval_dataloader(this: Any, eval_dataset: Any = None) -> Any:
        whole = loader(this, eval_dataset)
        if instrument.recorder is not None and instrument.proven:
            with contextlib.suppress(TypeError):  # a data set without a length
                instrument.recorder.measured(validation_batches_total=len(whole))
        return _Some(whole, instrument.wanted_validation)

    trainer.__init__, trainer.evaluate, trainer.get_eval_dataloader = begun, evaluated, get_eval_dataloader
    trainer.push_to_hub = lambda *args, **kwargs: None


def hold_to_full_length(module: Any) -> None:
    """Patches ``transformers.generation.utils``: no end of sentence comes before the longest that the caller allows."""
    generate = module.GenerationMixin.generate

    @functools.wraps(generate)
    def held(this: Any, inputs: Any = None, generation_config: Any = None, *args: Any, **kwargs: Any) -> Any:
        config = this.generation_config if generation_config is None else generation_config
        before, config.min_length = config.min_length, NEVER_ENDS
        try:
            return generate(this, inputs, generation_config, *args, **kwargs)
        finally:
            config.min_length = before

    module.GenerationMixin.generate = held


def _enough(instrument: Instrument, state: Any) -> bool:
    """Tells whether training went on for long enough before its evaluation; ranks evaluate together."""
    wish = instrument.varied() or state.global_step + 2 >= state.max_steps
    return instrument.together.agreed("evaluation", str(state.global_step), wish)


_FIELDS = (
    "per_device_train_batch_size", "gradient_accumulation_steps", "per_device_eval_batch_size", "max_steps", "num_train_epochs",
)  # fmt: skip


def _fields(args: Any, model: Any) -> dict[str, Any]:
    """The arguments that a rung can turn. A model of the person's own may not know how to checkpoint."""
    able = ("gradient_checkpointing",) if getattr(model, "supports_gradient_checkpointing", False) else ()
    return {name: getattr(args, name) for name in (*_FIELDS, *able)}


class _Some:
    """The first batches of a data loader, which is otherwise itself."""

    def __init__(self, loader: Any, count: int) -> None:
        self.__dict__.update(_loader=loader, _count=count)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._loader, name, value)

    def __len__(self) -> int:
        return int(min(len(self._loader), self._count))

    def __iter__(self) -> Any:
        for batch, _ in zip(self._loader, range(self._count), strict=False):
            yield batch
