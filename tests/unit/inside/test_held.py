"""Programs that are held to a budget: the limit is real, and counts from their first model on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from autofit_launcher.adapter import commands
from autofit_launcher.adapter.commands import Command
from autofit_launcher.common import orders
from autofit_launcher.inside import budget
from autofit_launcher.inside.steps import Steps
from autofit_launcher.trainers.suite import cpu_budget

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a CPU budget is RLIMIT_DATA, which only Linux has")
MIB = 2**20
MODEL = "import torch\nmodel = torch.nn.Linear(2, 1)\n"
"""With it the budget is taken."""


def held(program: Path, text: str, *, mib: int = 256) -> subprocess.CompletedProcess[str]:
    """A program whose process takes a budget at its first model."""
    program.write_text(text, encoding="utf-8")
    env = {**os.environ, orders.MALLOC_VARIABLE: orders.MALLOC_VALUE}
    command = commands.under_budget(
        Command(argv=(sys.executable, str(program)), env=env), cpu_budget(mib * MIB), settings=program.with_suffix(".json")
    )
    return subprocess.run(command.argv, env=command.env, capture_output=True, text=True, timeout=300, check=False)


def test_the_limit_is_real_and_what_came_before_the_first_model_is_no_part_of_it(tmp_path: Path) -> None:
    text = f"before = bytearray(300 << 20)\n{MODEL}after = bytearray(200 << 20)\nprint('fits')\nbytearray(100 << 20)"
    ran = held(tmp_path / "train.py", text)
    assert ran.returncode == 1 and ran.stdout == "fits\n" and "MemoryError" in ran.stderr


def test_what_numpy_takes_once_for_itself_counts_as_base(tmp_path: Path) -> None:
    """OpenBLAS's buffer is 32 MiB: a first product of matrices, in a figure at a run's end, would take it out of the budget."""
    text = f"import numpy\n{MODEL}numpy.linalg.inv(numpy.eye(9))\nprint('fits')"
    assert held(tmp_path / "train.py", text, mib=16).stdout == "fits\n"


def test_a_system_without_a_budget_is_refused_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget.sys, "platform", "darwin")
    with pytest.raises(budget.BudgetError, match=r"needs Linux .*this is darwin"):
        budget.take(orders.Orders(module="", folder="", device="cpu", cap_bytes=MIB, accumulation=1, payload={}))


STEPS = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    model(torch.ones(2)).sum().backward()
    optimizer.step()
"""


def test_a_full_run_tells_its_optimizer_steps_beside_its_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(orders.HELD, str(tmp_path / "held"))
    ran = held(tmp_path / "train.py", MODEL + STEPS)
    assert ran.returncode == 0, ran.stderr
    (told,) = (tmp_path / "held").glob(f"*{orders.STEPS}")
    assert json.loads(told.read_text(encoding="utf-8")) == {"steps": [5], "ended": True}


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
