"""Programs under a budget: they see themselves as if started directly, and the limit is real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.inside import budget
from launcher.machine import allocator
from launcher.shared import orders
from tests.helpers.places import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a CPU budget is RLIMIT_DATA, which only Linux has")
MIB = 2**20
SEES_ITSELF = """
import json, sys
print(json.dumps({"argv": sys.argv, "path": sys.path[0], "name": __name__, "main": sys.modules["__main__"].__file__}))
"""


def budgeted(*words: str, mib: int = 256, cwd: Path | None = None, malloc: bool = True) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    if malloc:
        env[orders.MALLOC_VARIABLE] = orders.MALLOC_VALUE
    command = [sys.executable, "-m", "launcher.inside.budgeted", "--device", "cpu", "--bytes", str(mib * MIB), *words]
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd=cwd, timeout=300, check=False)


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_script_sees_its_own_arguments_folder_and_name(tmp_path: Path) -> None:
    script = write(tmp_path / "train.py", SEES_ITSELF)
    seen = json.loads(budgeted(script, "--lr", "1", "data=a b").stdout)
    assert seen == {"argv": [script, "--lr", "1", "data=a b"], "path": str(tmp_path), "name": "__main__", "main": script}


def test_a_script_imports_what_lies_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "beside.py", "VALUE = 42")
    script = write(tmp_path / "train.py", "import beside; print(beside.VALUE)")
    assert budgeted(script).stdout == "42\n"


def test_an_interpreter_may_be_named(tmp_path: Path) -> None:
    script = write(tmp_path / "train.py", "import sys; print(sys.argv[1:])")
    assert budgeted(sys.executable, script, "x").stdout == "['x']\n"


@pytest.mark.parametrize(
    ("ends", "status"),
    [("import sys; sys.exit(7)", 7), ("raise SystemExit('bad data')", 1), ("1 / 0", 1), ("pass", 0)],
    ids=["status", "message", "exception", "end"],
)
def test_the_exit_status_is_the_programs_own(tmp_path: Path, ends: str, status: int) -> None:
    assert budgeted(write(tmp_path / "train.py", ends)).returncode == status


def test_a_console_entry_point_runs_as_its_module_and_function() -> None:
    ran = budgeted("pytest", "--version")
    assert ran.returncode == 0, ran.stderr
    assert "pytest" in ran.stdout + ran.stderr


def test_a_module_runs_by_dash_m(tmp_path: Path) -> None:
    write(tmp_path / "tool.py", SEES_ITSELF)
    seen = json.loads(budgeted("-m", "tool", "a", cwd=tmp_path).stdout)
    assert (seen["argv"][1:], seen["path"], seen["name"]) == (["a"], str(tmp_path), "__main__")


def test_what_is_no_program_is_refused_by_name() -> None:
    ran = budgeted("no-such-program-anywhere")
    assert ran.returncode == 1
    assert "'no-such-program-anywhere' is neither a file, nor a program beside this Python" in ran.stderr


def test_the_limit_is_real(tmp_path: Path) -> None:
    script = write(tmp_path / "train.py", "import sys; x = bytearray(int(sys.argv[1]) << 20); print(len(x))")
    assert budgeted(script, "200").returncode == 0
    too_much = budgeted(script, "300")
    assert too_much.returncode == 1
    assert "MemoryError" in too_much.stderr


def test_imports_count_as_base(tmp_path: Path) -> None:
    write(tmp_path / "heavy.py", "KEPT = bytearray(200 << 20)")
    script = write(tmp_path / "train.py", "import heavy; x = bytearray(200 << 20); print('fits')")
    path = {**os.environ, **allocator.MALLOC, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    command = [sys.executable, "-m", "launcher.inside.budgeted", "--device", "cpu", "--bytes", str(256 * MIB)]
    with_imports = subprocess.run([*command, "--imports", "json,heavy", script], env=path, capture_output=True, text=True, check=False)
    without = subprocess.run([*command, script], env=path, capture_output=True, text=True, check=False)
    assert with_imports.stdout == "fits\n", with_imports.stderr
    assert "MemoryError" in without.stderr


def test_what_numpy_takes_once_for_itself_counts_as_base(tmp_path: Path) -> None:
    """OpenBLAS's buffer is 32 MiB: a first product of matrices, in a figure at a run's end, would take it out of the budget."""
    script = write(tmp_path / "train.py", "import numpy; numpy.linalg.inv(numpy.eye(9)); print('fits')")
    assert budgeted("--imports", "numpy", script, mib=16).stdout == "fits\n"


def test_a_budget_on_a_fragmenting_heap_is_said_loudly(tmp_path: Path) -> None:
    script = write(tmp_path / "train.py", "pass")
    assert f"WARNING: {orders.MALLOC_VARIABLE} is not set, not 65536" in budgeted(script, malloc=False).stderr
    assert budgeted(script).stderr == ""


class TestLimit:
    def test_nothing_is_no_budget(self) -> None:
        with pytest.raises(budget.BudgetError, match="allows nothing"):
            budget.limit(device="cpu", cap_bytes=0)

    def test_a_device_without_a_budget_is_refused(self) -> None:
        with pytest.raises(budget.BudgetError, match="'mps'"):
            budget.limit(device="mps", cap_bytes=MIB)

    def test_another_system_is_refused_with_a_reason(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(budget.sys, "platform", "darwin")
        with pytest.raises(budget.BudgetError, match=r"needs Linux .*this is darwin"):
            budget.limit(device="cpu", cap_bytes=MIB)


STEPS = """
import torch
weight = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(5):
    weight.sum().backward()
    optimizer.step()
"""


def test_a_full_run_tells_its_optimizer_steps_beside_its_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(orders.HELD, str(tmp_path / "held"))
    ran = budgeted("--imports", "torch", write(tmp_path / "train.py", STEPS))
    assert ran.returncode == 0, ran.stderr
    (told,) = (tmp_path / "held").glob(f"*{orders.STEPS}")
    assert json.loads(told.read_text(encoding="utf-8")) == {"steps": [5], "ended": True}
