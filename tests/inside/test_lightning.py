"""How long the passes of Lightning's Trainer are in a trial; with a stand-in for the Trainer, which needs no Lightning."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from autofit_launcher.common.report import LEFT_AFTER
from autofit_launcher.trainers.lightning.inside import hooks as lightning


class Trainer:
    def __init__(self, accumulate_grad_batches: int) -> None:
        self.accumulate_grad_batches, self.callbacks = accumulate_grad_batches, []
        self.limit_val_batches = self.limit_train_batches = self.val_check_interval = 1.0
        self.max_steps = -1
        self.fit_loop = SimpleNamespace(epoch_loop=SimpleNamespace(), max_epochs=2)

    def fit(self, model: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("automatic", "by_trainer", "told", "batches", "said"),
    [(True, 2, 4, 6, 2), (False, 1, 4, 12, None)],
    ids=["what the Trainer has counts", "by hand"],
)
def test_a_pass_is_as_long_as_the_wanted_steps(automatic: bool, by_trainer: int, told: int, batches: int, said: int | None) -> None:
    class Fresh(Trainer):
        pass

    facts: dict[str, Any] = {}
    session: Any = SimpleNamespace(
        open=lambda: None, wanted=3, wanted_validation=2, told=told, recorder=SimpleNamespace(fact=lambda **found: facts.update(found)),
        arrives=SimpleNamespace(given=lambda fields: None),
    )  # fmt: skip
    lightning.install(session, SimpleNamespace(Trainer=Fresh, Callback=object))
    trainer: Any = Fresh(by_trainer)
    trainer.fit(SimpleNamespace(automatic_optimization=automatic))
    assert trainer.limit_train_batches == batches
    assert list(facts.values()) == ([] if said is None else [said])


@pytest.mark.parametrize(("limit", "left"), [(5, 5), (20, 0), (0.25, None)])
def test_batches_of_a_pass_that_the_trainer_limits_are_told(limit: float, left: int | None) -> None:
    """As many micro-batches have fewer samples; a part of the data has as many."""
    facts: dict[str, Any] = {}
    told, nothing = SimpleNamespace(swallowed=False), lambda *_, **__: None
    recorder = SimpleNamespace(fact=lambda **found: facts.update(found), observed={}, told=told, measured=nothing, observe=nothing)
    session: Any = SimpleNamespace(
        open=nothing, training=nothing, wanted=3, wanted_validation=2, told=1, recorder=recorder, micro_batches=[],
        arrives=SimpleNamespace(given=nothing, trains=nothing), orders=SimpleNamespace(payload={}),
    )  # fmt: skip
    lightning.install(session, module := SimpleNamespace(Trainer=type("Fresh", (Trainer,), {"fit": lambda *_: None}), Callback=object))
    trainer = module.Trainer(1)
    trainer.limit_train_batches = limit
    trainer.fit(SimpleNamespace(automatic_optimization=True))
    trainer.train_dataloader = type("Loader", (), {"batch_size": 4, "__len__": lambda _: 10})()
    trainer.callbacks[-1].on_train_batch_start(trainer, None, None, 0)
    assert facts.get(LEFT_AFTER) == left


@pytest.mark.parametrize(
    ("length", "batches", "steps", "found"), [(10, 1.0, -1, 9), (10, 0.5, -1, 6), (10, 4, -1, 3), (10, 1.0, 5, 5), (0, 1.0, -1, math.inf)]
)
def test_how_long_it_would_have_trained(length: int, batches: float, steps: int, found: float) -> None:
    assert lightning.updates(length, accumulation=4, batches=batches, epochs=3, steps=steps) == found
