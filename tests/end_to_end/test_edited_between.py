"""A launch of a script with its settings in the source is killed, its script is edited by its owner, and it is resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import launched_with
from tests.helpers.command_line import answer, autofit
from tests.helpers.places import ROOT

PLACE = "PLACE_OF_A_TEST"
SCRIPT = """import os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset

class Config:
    batch = 64
    epochs = 8

class Rows(Dataset):
    def __len__(self):
        return 128
    def __getitem__(self, index):
        return torch.full((500_000,), float(index % 7))

def made(data, config):
    return DataLoader(data, batch_size=config.batch, shuffle=True)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(500_000))
    def forward(self, x):
        return ((x * self.scale) ** 2).mean()

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
begin = 0
if "--resume" in sys.argv:
    saved = torch.load(sys.argv[sys.argv.index("--resume") + 1])
    model.load_state_dict(saved["model"])
    begin = saved["epoch"] + 1
loader = made(Rows(), Config)
for epoch in range(begin, Config.epochs):
    for x in loader:
        optimizer.zero_grad()
        model(x).backward()
        optimizer.step()
        with open("rows.txt", "a") as file:
            file.write(f"{epoch}:{len(x)}\\n")
    torch.save({"model": model.state_dict(), "epoch": epoch}, f"epoch-{epoch}.pt")
    time.sleep(0 if os.path.exists("go") else 1)
"""
RESUME = "trainer.args.resume={words: '--resume {checkpoint}', newest: 'epoch-*.pt'}"


def killed_in_its_run(place: Path) -> str:
    """Launches, kills autofit and its trainer in the run's third epoch, and says which run that was."""
    argv = [sys.executable, "-m", "launcher", "run", "--json", "device=cpu", "device.memory=700MiB", RESUME]
    env = {**os.environ, "PYTHONPATH": str(ROOT), PLACE: str(place)}
    with subprocess.Popen(
        [*argv, "--", sys.executable, "train.py"], cwd=place, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as launch:
        until = time.monotonic() + 400
        while not (place / "epoch-1.pt").exists() and launch.poll() is None and time.monotonic() < until:
            time.sleep(0.2)
        assert launch.poll() is None, launch.communicate()[1][-3000:]
        for pid in (launch.pid, *launched_with(PLACE, place)):
            if psutil.pid_exists(pid):
                os.kill(pid, signal.SIGKILL)
        launch.communicate(timeout=60)
    return next(iter(sorted((place / "runs" / "autofit").glob("*")))).name


@pytest.mark.slow
def test_a_launch_killed_and_edited_goes_on_where_its_loader_stands_now_and_not_with_another_batch(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    run = killed_in_its_run(tmp_path)
    before = (tmp_path / "rows.txt").read_text().split()
    (tmp_path / "go").touch()
    (tmp_path / "train.py").write_text(SCRIPT.replace("batch = 64", "batch = 16"))
    refused = autofit("resume", run, cwd=tmp_path)
    assert refused.returncode == 1 and "made for micro_batch 64, and it is 16 now" in " ".join(refused.stderr.split()), refused.stderr
    assert (tmp_path / "rows.txt").read_text().split() == before, "nothing ran"
    (tmp_path / "train.py").write_text(SCRIPT.replace("def made", "# what the loader is made of\n\ndef made"))
    done = autofit("resume", run, "--json", cwd=tmp_path, timeout=300)
    assert (done.returncode, answer(done)["status"], answer(done)["effective_batch"]) == (0, "done", 64), done.stderr[-3000:]
    rows, size = (tmp_path / "rows.txt").read_text().split(), answer(done)["rung"]["micro_batch"]
    assert size < 64 and set(rows) == {f"{epoch}:{size}" for epoch in range(8)}, (
        "an epoch that was cut off is begun again, none is left out"
    )
    assert "found in train.py:18 by its text" in " ".join(done.stderr.split())
