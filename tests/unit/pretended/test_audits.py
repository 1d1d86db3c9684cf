"""What audits of the CUDA path found, on PyTorch's real allocator: a run's is that of its trial."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autofit_launcher.adapter.commands import Command, under_budget
from autofit_launcher.common.sizes import GIB
from autofit_launcher.machine.devices import VARIABLES, allocator_environment
from autofit_launcher.trainers.suite import cpu_budget
from tests.helpers.pretended import needs_a_pretended_card, played

SCRIPT = """
import os
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64")
import torch
held = torch.zeros(1 << 24, device="cuda")
print(any(one["is_expandable"] for one in torch.cuda.memory_snapshot()))
try:
    torch.empty(5 << 30, dtype=torch.uint8, device="cuda")
    print("not held")
except torch.OutOfMemoryError as error:
    print("allowed" in str(error))
"""
"""A script that says something of the allocator itself, unless somebody has said it before."""


@needs_a_pretended_card
@pytest.mark.parametrize("variable", [None, *(pytest.param(name, marks=pytest.mark.slow) for name in VARIABLES)])
def test_a_run_that_is_held_has_the_segments_of_its_trial(variable: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "expandable_segments:False")
    with played(usable_bytes=8 * GIB) as environment:
        budget = replace(cpu_budget(), kind="cuda", uuid="0")
        trial = {**environment, **allocator_environment(budget)}
        run = {
            **trial,
            **under_budget(
                Command(argv=(), env=trial), replace(budget, cap_bytes=4 * GIB, budget_bytes=4 * GIB), settings=tmp_path / "s"
            ).env,
        }
        in_trial, in_run = (_said(env) for env in (trial, run))
    assert in_trial[0] == in_run[0] == str(variable is None), "expandable unless the person says otherwise"
    assert (in_trial[1], in_run[1]) == ("not held", "True")


def _said(env: dict[str, str]) -> list[str]:
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split("\n")[:2]


FORKS = """
import os, torch
model = torch.nn.Linear(8, 8)
if (child := os.fork()):
    raise SystemExit(os.waitpid(child, 0)[1] or torch.cuda.is_initialized())
held = torch.zeros(1 << 20, device="cuda")
try:
    torch.empty(5 << 30, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    os._exit(0)
os._exit(1)
"""


@needs_a_pretended_card
def test_a_process_that_only_builds_leaves_the_card_to_the_one_it_forks(tmp_path: Path) -> None:
    """Its child could not use CUDA any more; where the card is for one process at a time, neither could a spawned one."""
    with played(usable_bytes=8 * GIB) as environment:
        half = replace(cpu_budget(), kind="cuda", uuid="0", cap_bytes=4 * GIB, budget_bytes=4 * GIB)
        command = under_budget(Command(argv=(sys.executable, "-c", FORKS), env=environment), half, settings=tmp_path / "s")
        done = subprocess.run(command.argv, env=command.env, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
