"""Ultralytics' loggers hold memory of a CPU budget: TensorBoard's are in a trial where they are on, others are refused by name."""

from __future__ import annotations

import importlib
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import ultralytics.utils

from launcher.trainers.ultralytics.inside import trial_trainer
from launcher.trainers.ultralytics.inside.plan import NotCovered


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that makes one of Ultralytics' logger modules one whose library is installed, and turns it on in the settings."""

    def install(name: str, on: bool = True) -> list[Any]:
        begun: list[Any] = []

        def begins(trainer: Any) -> None:
            begun.append(trainer)

        def starts(trainer: Any) -> None: ...

        module = importlib.import_module(f"ultralytics.utils.callbacks.{name}")
        begins.__module__ = starts.__module__ = module.__name__
        monkeypatch.setattr(module, "callbacks", {trial_trainer.BEGINS: begins, "on_train_start": starts})
        settings = ultralytics.utils.SETTINGS
        monkeypatch.setattr(ultralytics.utils, "SETTINGS", {**settings, {"wb": "wandb"}.get(name, name): on})
        return begun

    return install


def trainer(device: str = "cpu") -> Any:
    return SimpleNamespace(callbacks=defaultdict(list), device=SimpleNamespace(type=device))


@pytest.mark.parametrize("on", [True, False])
def test_tensorboards_callbacks_are_a_trials_where_they_are_on(on: bool, installed: Any) -> None:
    begun, one = installed("tensorboard", on), trainer()
    trial_trainer._with_loggers(one)
    assert begun == ([one] if on else [])
    assert len(one.callbacks["on_train_start"]) == on


@pytest.mark.parametrize(("name", "setting"), [("mlflow", "mlflow"), ("wb", "wandb")])
def test_one_that_no_trial_can_show_is_refused_on_a_cpu_alone(name: str, setting: str, installed: Any) -> None:
    begun = installed(name)
    with pytest.raises(NotCovered, match=rf"{setting}: on in Ultralytics' settings.*yolo settings {setting}=False"):
        trial_trainer._with_loggers(trainer())
    trial_trainer._with_loggers(trainer("cuda"))
    assert begun == []


def test_one_that_is_off_or_not_installed_is_nothing(installed: Any) -> None:
    installed("mlflow", on=False)
    one = trainer()
    trial_trainer._with_loggers(one)
    assert not any(one.callbacks.values())


def test_a_rank_beside_the_first_has_none(installed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    installed("mlflow")
    monkeypatch.setattr(ultralytics.utils, "RANK", 1)
    trial_trainer._with_loggers(trainer())
