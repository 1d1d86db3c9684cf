"""Ways in which Ultralytics would make a trial lie or touch the user's files, and what holds them off."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from autofit_launcher.common.report import Phase
from autofit_launcher.trainers.ultralytics.inside import hooks
from tests.helpers.shapes import ShapesData
from tests.trainers.ultralytics.conftest import RunTrial


@pytest.mark.slow
def test_an_assigner_that_swallows_an_out_of_memory_error_is_reported(run_trial: RunTrial, shapes: Callable[..., ShapesData]) -> None:
    ran = run_trial(shapes().yaml, fault="oom_in_the_assigner")
    assert ran.status == 0, ran.output
    assert ran.report.phase == Phase.DONE
    assert ran.report.swallowed[0].startswith("TaskAlignedAssigner ran out of memory (")


@pytest.mark.slow
def test_figures_pile_up_as_they_may_in_the_run(run_trial: RunTrial, shapes: Callable[..., ShapesData]) -> None:
    """A run without validation draws those of its last epoch and of its best weights; on a CPU it took 135 % of its trial so."""
    ran = run_trial(shapes().yaml, fault="figures", args={"epochs": 2, "val": False, "plots": True})
    assert ran.report.phase == Phase.DONE, ran.output
    assert [line for line in ran.output.splitlines() if line.startswith("FIGURE")] == ["FIGURE False"] * 2


def test_no_logger_but_tensorboard_is_a_trials() -> None:
    told: Any = hooks.hooks(SimpleNamespace())  # type: ignore[arg-type]
    assert "ultralytics.utils.callbacks.tensorboard" not in told
    module: Any = SimpleNamespace(__name__="ultralytics.utils.callbacks.wb", callbacks={"on_train_start": print})
    told[module.__name__][1](module)
    assert module.callbacks == {}


def test_a_training_is_steered_though_no_card_was_used_before_it(exact: Any) -> None:
    class Model:
        task = "detect"

        def train(self, trainer: Any, **_: Any) -> Any:
            return trainer.__name__

        def _smart_load(self, _: str) -> Any:
            return type("Trainer", (), {})

    instrument: Any = SimpleNamespace(recorder=None, phase=Phase.SETUP, ends_soon=lambda: None)
    instrument.open = lambda: setattr(instrument, "recorder", object())
    hooks._models(instrument, SimpleNamespace(Model=Model))
    assert Model().train() == "TriedTrainer"  # type: ignore[call-arg]
