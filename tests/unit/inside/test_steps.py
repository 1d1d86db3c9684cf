"""Optimizer steps as a full run counts them."""

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

from autofit_launcher.inside.steps import Steps


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


def test_steps_that_a_cuda_graph_repeats_are_not_known(counted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    optimizer = of_two_groups()
    optimizer.step()
    assert counted() == [1], "before it is captured"
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    optimizer.step()
    with pytest.raises(FileNotFoundError):
        counted()


def test_steps_that_deepspeed_makes_group_by_group_are_not_counted(counted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deepspeed", types.ModuleType("deepspeed"))
    of_two_groups().step()
    with pytest.raises(FileNotFoundError):
        counted()
