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


def installed(told: int) -> tuple[type[Trainer], dict[str, Any]]:
    """A Trainer in a trial that has told it so many micro-batches in a step, and the facts that are told of it."""
    facts: dict[str, Any] = {}

    def nothing(*_: Any, **__: Any) -> None: ...

    recorder = SimpleNamespace(
        fact=lambda **found: facts.update(found), observed={}, told=SimpleNamespace(swallowed=False), measured=nothing, observe=nothing
    )
    session: Any = SimpleNamespace(
        open=nothing, training=nothing, wanted=3, wanted_validation=2, told=told, recorder=recorder, micro_batches=[],
        arrives=SimpleNamespace(given=nothing, trains=nothing), orders=SimpleNamespace(payload={}),
    )  # fmt: skip
    lightning.install(session, module := SimpleNamespace(Trainer=type("Fresh", (Trainer,), {"fit": lambda *_: None}), Callback=object))
    return module.Trainer, facts


@pytest.mark.parametrize(
    ("automatic", "by_trainer", "batches", "said"), [(True, 2, 6, 2), (False, 1, 12, None)], ids=["what the Trainer has counts", "by hand"]
)
def test_a_pass_is_as_long_as_the_wanted_steps(automatic: bool, by_trainer: int, batches: int, said: int | None) -> None:
    fresh, facts = installed(told=4)
    trainer = fresh(by_trainer)
    trainer.fit(SimpleNamespace(automatic_optimization=automatic))
    assert trainer.limit_train_batches == batches
    assert list(facts.values()) == ([] if said is None else [said])


@pytest.mark.parametrize(("limit", "left"), [(5, 5), (20, 0), (0.25, None)])
def test_batches_of_a_pass_that_the_trainer_limits_are_told(limit: float, left: int | None) -> None:
    """As many micro-batches have fewer samples; a part of the data has as many."""
    fresh, facts = installed(told=1)
    trainer: Any = fresh(1)
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
