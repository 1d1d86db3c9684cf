"""How long the passes of Lightning's Trainer are in a trial; with a stand-in for the Trainer, which needs no Lightning."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

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
    [(True, 4, 4, 12, 4), (True, 2, 4, 6, 2), (False, 1, 4, 12, None), (False, 1, 1, 3, None)],
    ids=["automatic", "what the Trainer has counts", "by hand", "by hand, none"],
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


AS_IT_IS: dict[str, Any] = {"accumulation": 4, "batches": 1.0, "epochs": 3, "steps": -1}


@pytest.mark.parametrize(
    ("length", "said", "found"),
    [
        (10, {}, 9),
        (10, {"batches": 0.5}, 6),
        (10, {"batches": 4}, 3),
        (10, {"steps": 5}, 5),
        (0, {"steps": 5, "epochs": -1}, 5),
        (0, {}, math.inf),
    ],
    ids=["epochs", "a part of them", "batches", "steps", "no length", "unknown"],
)
def test_how_long_it_would_have_trained(length: int, said: dict[str, Any], found: float) -> None:
    assert lightning.updates(length, **{**AS_IT_IS, **said}) == found
