"""``import autofit_launcher as autofit``: what is asked is what the command line gets; how it ended comes back, or is raised."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import QuotedString
from hypothesis import given
from hypothesis import strategies as st

import autofit_launcher as autofit
from autofit_launcher import api

SCRIPT = """
import argparse
import torch
from torch.utils.data import DataLoader, TensorDataset
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--seconds", type=float, default=0)
args = parser.parse_args()
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(4):
    for (rows,) in DataLoader(TensorDataset(torch.randn(64, 16)), batch_size=args.batch_size, shuffle=True):
        optimizer.zero_grad()
        model(rows).pow(2).mean().backward()
        optimizer.step()
        __import__("time").sleep(args.seconds)
"""
CALLS = """
import sys, autofit_launcher as autofit
try:
    autofit.run([sys.executable, "train.py", "--seconds", "600"], {"device": "cpu"})
except KeyboardInterrupt:
    sys.exit(7)
"""
plain = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text())


@given(st.one_of(plain, st.lists(plain)))
def test_hydra_reads_the_value_that_was_given(value: Any) -> None:
    read = OverridesParser.create().parse_override(f"key={api._value(value)}").value()
    told = [one.text if isinstance(one, QuotedString) else one for one in (read if isinstance(read, list) else [read])]
    assert told == (value if isinstance(value, list) else [value])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def test_bad_input_is_an_error_that_says_what_would_work(place: Path) -> None:
    with pytest.raises(autofit.BadInput, match=r"device\.memory_mib: no such key") as caught:
        autofit.run([sys.executable, "train.py"], {"device": "cpu", "device.memory_mib": 200}, folder=place)
    assert (caught.value.result.status, caught.value.result.exit_status) == ("bad_input", 1)
    assert autofit.run([sys.executable, "none.py"], folder=place, check=False).status == "bad_input"


def test_a_launch_comes_back_as_its_record(place: Path) -> None:
    result = autofit.run([sys.executable, "train.py", "--batch-size", "16"], {"device": "cpu", "name": "it's mine"}, folder=place)
    assert (result.status, result.exit_status) == ("done", 0)
    assert (dict(result.rung), result.accumulation, result.effective_batch) == ({"micro_batch": 16}, 1, 16)
    assert result.folder is not None and result.folder.name.startswith("it_s_mine")
    assert json.loads((result.folder / "record.json").read_text())["memory"] == result.record["memory"]
    assert result.command.endswith("train.py --batch-size 16")


@pytest.mark.parametrize(("how", "status"), [(signal.SIGINT, 7), (signal.SIGKILL, -9)])
def test_a_launch_ends_with_the_process_that_asked_for_it(how: signal.Signals, status: int, place: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", CALLS], cwd=place, start_new_session=True, stderr=subprocess.DEVNULL) as asking:
        _until(lambda: any("train.py" in " ".join(one.cmdline()) for one in _below(asking.pid)[1:]))
        below = _below(asking.pid)
        os.kill(asking.pid, how)
        assert asking.wait(120) == status
        _until(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in below))


def _below(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def _until(holds: Any, most_s: float = 120) -> None:
    until = time.monotonic() + most_s
    while time.monotonic() < until:
        try:
            if holds():
                return
        except psutil.NoSuchProcess:
            pass
        time.sleep(0.1)
    raise AssertionError("it never came to hold")
