"""Programs that are held to a budget: the limit is real, and counts from their first model on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autofit_launcher.adapter import commands
from autofit_launcher.adapter.commands import Command
from autofit_launcher.common import orders
from autofit_launcher.inside import budget
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


def orders_of(device: str, cap_bytes: int) -> orders.Orders:
    return orders.Orders(module="", folder="", device=device, cap_bytes=cap_bytes, accumulation=1, payload={})


class TestLimit:
    def test_nothing_is_no_budget(self) -> None:
        with pytest.raises(budget.BudgetError, match="allows nothing"):
            budget.take(orders_of("cpu", 0))

    def test_a_device_without_a_budget_is_refused(self) -> None:
        with pytest.raises(budget.BudgetError, match="'mps'"):
            budget.take(orders_of("mps", MIB))

    def test_another_system_is_refused_with_a_reason(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(budget.sys, "platform", "darwin")
        with pytest.raises(budget.BudgetError, match=r"needs Linux .*this is darwin"):
            budget.take(orders_of("cpu", MIB))


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
