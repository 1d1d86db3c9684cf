"""Optimizer steps as a full run counts them: DeepSpeed's ZeRO has its optimizer step once for each of its groups."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from launcher.inside.steps import Steps


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Any]:
    """Says how many steps were counted of each optimizer."""
    steps = Steps(tmp_path / "steps.json")
    hook = register_optimizer_step_post_hook(steps.stepped)
    yield lambda: (steps.write(), json.loads((tmp_path / "steps.json").read_text())["steps"])[1]
    hook.remove()


def of_two_groups() -> Any:
    weights = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
    for one in weights:
        one.grad = torch.ones(2)
    return torch.optim.SGD([{"params": [one]} for one in weights], lr=0.1)


def test_every_step_counts(counted: Any) -> None:
    optimizer = of_two_groups()
    for _ in range(3):
        optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step()
    assert counted() == [4]


def test_a_step_that_is_made_group_by_group_counts_once(counted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As its stages 1 and 2 do, which lend the optimizer one group at a time, and stage 3, which lends it one weight."""
    monkeypatch.setitem(sys.modules, "deepspeed", types.ModuleType("deepspeed"))
    optimizer, third = of_two_groups(), of_two_groups()
    groups, weights = optimizer.param_groups, [group["params"] for group in third.param_groups]
    for _ in range(3):
        for one in groups:
            optimizer.param_groups = [one]
            optimizer.step()
        optimizer.param_groups = groups
        for own, group in zip(weights, third.param_groups, strict=True):
            for each in third.param_groups:
                each["params"] = own if each is group else []
            third.step()
    assert counted() == [3, 3]


def test_steps_by_which_its_engine_makes_states_are_none(counted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deepspeed", types.ModuleType("deepspeed"))
    optimizer = of_two_groups()
    made: dict[str, Any] = {"__name__": "deepspeed.runtime.engine"}
    exec("class Engine:\n    def __init__(self, optimizer):\n        optimizer.step()\n", made)
    made["Engine"](optimizer)
    optimizer.step()
    assert counted() == [1]
