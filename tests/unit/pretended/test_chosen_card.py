"""A full run trains on the card of its trial, whatever a trainer or a script sets CUDA_VISIBLE_DEVICES to; on two pretended cards."""

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
from tests.helpers.command_line import answer, autofit
from tests.helpers.pretended import needs_a_pretended_card, played
from tests.helpers.pretended import two as two

pytestmark = needs_a_pretended_card
SCRIPT = """
import argparse, os
import torch
from torch.utils.data import DataLoader, TensorDataset
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
batch = parser.parse_args().batch_size
model = torch.nn.Linear(16, 1)
os.environ["CUDA_VISIBLE_DEVICES"] = "{card}"
model.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(4):
    for (rows,) in DataLoader(TensorDataset(torch.randn(64, 16)), batch_size=batch, shuffle=True):
        optimizer.zero_grad()
        model(rows.cuda()).pow(2).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("card", "refused"), [("0", True), ("1", False)])
def test_a_script_that_names_another_card_is_refused(card: str, refused: bool, two: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.format(card=card))
    words = ("run", "--json", "device=cuda", "device.index=1", "--", sys.executable, "train.py")
    done = autofit(*words, cwd=tmp_path, **{**two, "COLUMNS": "200"})
    said = done.stdout + done.stderr
    assert ("something in it sets CUDA_VISIBLE_DEVICES" in " ".join(said.split())) is refused, said[-3000:]
    assert (done.returncode == 0) is not refused, said[-3000:]
    if not refused:
        record = answer(done)
        assert "CUDA_VISIBLE_DEVICES=1" in record["command"] and record["run"]["optimizer_steps"] == 32, "a held run counts them"
        assert 0.9 < record["memory"]["run_peak_bytes"] / record["memory"]["trial_peak_bytes"] < 1.03


ITS_OWN = """
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


@pytest.mark.parametrize("variable", [None, *(pytest.param(name, marks=pytest.mark.slow) for name in VARIABLES)])
def test_a_run_that_is_held_has_the_segments_of_its_trial(variable: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "expandable_segments:False")
    with played(usable_bytes=8 * GIB) as environment:
        budget = replace(cpu_budget(), kind="cuda", uuid="0")
        trial = {**environment, **allocator_environment(budget)}
        half = replace(budget, cap_bytes=4 * GIB, budget_bytes=4 * GIB)
        run = {**trial, **under_budget(Command(argv=(), env=trial), half, settings=tmp_path / "s").env}
        in_trial, in_run = (_said(env) for env in (trial, run))
    assert in_trial[0] == in_run[0] == str(variable is None), "expandable unless the person says otherwise"
    assert (in_trial[1], in_run[1]) == ("not held", "True")


def _said(env: dict[str, str]) -> list[str]:
    done = subprocess.run([sys.executable, "-c", ITS_OWN], env=env, capture_output=True, text=True, timeout=200, check=False)
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


def test_a_process_that_only_builds_leaves_the_card_to_the_one_it_forks(tmp_path: Path) -> None:
    """Its child could not use CUDA any more; where the card is for one process at a time, neither could a spawned one."""
    with played(usable_bytes=8 * GIB) as environment:
        half = replace(cpu_budget(), kind="cuda", uuid="0", cap_bytes=4 * GIB, budget_bytes=4 * GIB)
        command = under_budget(Command(argv=(sys.executable, "-c", FORKS), env=environment), half, settings=tmp_path / "s")
        done = subprocess.run(command.argv, env=command.env, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
