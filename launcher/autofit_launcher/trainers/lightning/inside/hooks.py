"""Hooks into Lightning's ``Trainer``: limits in its own terms, and a callback that tells the phases apart.

It plans its validations by the length of its data loader, so ending a pass early would only lose them.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from ....common.report import LEFT_AFTER, SAID_ACCUMULATION, UPDATES
from ....inside.after_import import Hook
from ....inside.instrument import Instrument
from ....inside.stubs import observe_micro_batch
from ....inside.worst import batch_size, length

_UNWANTED = ("EarlyStopping", "OnExceptionCheckpoint", "LearningRateFinder", "BatchSizeFinder")


def hooks(instrument: Instrument) -> dict[str, tuple[str, Hook]]:
    """Module -> (a name that must be in it, what is done with it when it has been imported)."""
    act: tuple[str, Hook] = ("Callback", lambda module: install(instrument, module))
    return {"lightning.pytorch.trainer.trainer": act, "pytorch_lightning.trainer.trainer": act}


def install(instrument: Instrument, module: Any) -> None:
    """Patches the Trainer of ``lightning.pytorch`` or ``pytorch_lightning``."""
    trainer = module.Trainer
    fit, asked = trainer.fit, dict[str, Any]()

    class Probe(module.Callback):  # type: ignore[misc]
        def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, batch_idx: int) -> None:
            instrument.training()
            if instrument.recorder is None or "micro_batch" in instrument.recorder.observed:
                return
            loader = trainer.train_dataloader
            size = batch_size(loader, batch, instrument)
            if size is not None:
                observe_micro_batch(instrument, size)
                instrument.arrives.trains(loader)
            instrument.recorder.measured(train_samples=length(getattr(loader, "dataset", None)))
            if (whole := updates(length(loader), **asked)) < math.inf:
                instrument.recorder.fact(**{UPDATES: whole})
            if isinstance(limit := asked["batches"], int):
                instrument.recorder.fact(**{LEFT_AFTER: limit if limit < length(loader) else 0})

        def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
            if instrument.ends_training():
                trainer.should_stop = True

        def on_validation_start(self, *_: Any, **__: Any) -> None:
            instrument.validating()

        def on_validation_batch_end(self, *_: Any, **__: Any) -> None:
            instrument.validation_batch()

        def on_validation_end(self, *_: Any, **__: Any) -> None:
            instrument.validation_ended()

    @functools.wraps(fit)
    def fitted(this: Any, model: Any = None, *args: Any, **kwargs: Any) -> Any:
        instrument.open()
        instrument.passive = True
        accumulation = max(int(this.accumulate_grad_batches), 1)
        by_hand = not getattr(model, "automatic_optimization", True)  # of its accumulation the Trainer knows nothing then
        if by_hand:
            accumulation = max(accumulation, instrument.told)
        elif instrument.recorder is not None:
            instrument.recorder.fact(**{SAID_ACCUMULATION: accumulation})
            instrument.arrives.given({"accumulate_grad_batches": accumulation})
        epochs, steps = (None, -1) if by_hand else (this.fit_loop.max_epochs, this.max_steps)
        asked.update(accumulation=accumulation, batches=this.limit_train_batches, epochs=epochs, steps=steps)
        this.callbacks = [callback for callback in this.callbacks if not any(cls.__name__ in _UNWANTED for cls in type(callback).__mro__)]
        this.callbacks.append(Probe())
        this.limit_train_batches = instrument.wanted * accumulation
        this.limit_val_batches = instrument.wanted_validation if this.limit_val_batches else 0
        this.limit_test_batches = this.limit_predict_batches = instrument.wanted_validation
        this.num_sanity_val_steps = 0
        this.check_val_every_n_epoch, this.val_check_interval = 1, 1.0
        this.fit_loop.max_epochs, this.fit_loop.min_epochs = 3, None
        this.fit_loop.epoch_loop.max_steps = -1
        return fit(this, model, *args, **kwargs)

    trainer.fit = fitted


def updates(length: int, *, accumulation: int, batches: float, epochs: int | None, steps: int) -> float:
    """Optimizer steps of the whole training, as the Trainer's ``estimated_stepping_batches`` counts them; infinite where it can't know."""
    given = min(length, batches) if isinstance(batches, int) else int(length * batches)
    by_epochs = math.ceil(given / accumulation) * epochs if given and epochs is not None and epochs > 0 else math.inf
    return min(by_epochs, steps if steps >= 0 else math.inf)
