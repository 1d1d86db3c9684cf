"""TensorBoard's callbacks are in a trial where the person has them on: the graph that they trace holds memory."""

from __future__ import annotations

import sys
from collections import defaultdict
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import ultralytics.utils
import ultralytics.utils.callbacks

from launcher.trainers.ultralytics.inside import trial_trainer


@pytest.mark.parametrize("on", [True, False])
def test_tensorboards_callbacks_are_a_trials_where_they_are_on(on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []
    stand_in = ModuleType("ultralytics.utils.callbacks.tensorboard")
    stand_in.callbacks = {trial_trainer.BEGINS: begun.append, "on_train_start": print}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
    monkeypatch.setattr(ultralytics.utils.callbacks, "tensorboard", stand_in, raising=False)
    monkeypatch.setattr(ultralytics.utils, "SETTINGS", {"tensorboard": on})
    trainer = SimpleNamespace(callbacks=defaultdict(list))
    trial_trainer._with_tensorboard(trainer)
    assert begun == ([trainer] if on else [])
    assert trainer.callbacks["on_train_start"] == ([print] if on else [])
