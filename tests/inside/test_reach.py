"""Whether the probe can come into a Python process is told by how that was started, and not by how long it takes to start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from autofit_launcher.common.orders import Orders, injected
from autofit_launcher.common.report import WORLD_SIZE, Failure, TrialReport
from autofit_launcher.inside import reach, trial

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
SLEEPS = "import time; time.sleep(600)"


@contextmanager
def running(argv: Sequence[str], env: dict[str, str]) -> Iterator[int]:
    child = subprocess.Popen(argv, env=env)
    try:
        while Path(f"/proc/{child.pid}/cmdline").read_bytes().split(b"\0")[: len(argv)] != [os.fsencode(word) for word in argv]:
            time.sleep(0.01)
        yield child.pid
    finally:
        child.kill()
        child.wait()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "UNREACHED_S", -1.0)


def told(place: Path) -> dict[str, str]:
    return {**os.environ, **injected(place / "probe.json", os.environ)}


def test_a_python_that_takes_long_to_start_is_waited_for(tmp_path: Path) -> None:
    """Its site packages lie on a slow disk: here, one of them sleeps before any program, and before what loads the probe."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    (packages,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    (packages / "slow.pth").write_text(f"{SLEEPS}\n")
    with running([str(tmp_path / "env" / "bin" / "python"), "-c", "pass"], told(tmp_path)) as pid:
        assert reach.out_of(pid) == ""


def test_one_that_is_told_to_leave_it_out_is_out_of_reach_once_it_has_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running([sys.executable, "-I", "-c", SLEEPS], told(tmp_path)) as pid:
        assert reach.out_of(pid) == ""
        monkeypatch.setattr(reach, "_has_torch", lambda pid: True)
        assert f"{sys.executable} -I" in reach.out_of(pid)


def test_ranks_that_are_ended_for_one_that_failed_were_not_killed_by_anybody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its failure may turn out to be the trial's own doing: a status of -9 would then be told as the kernel's out-of-memory killer."""
    monkeypatch.setattr(trial, "LATE_S", 0.1)
    orders = Orders(module="", folder=str(tmp_path), device="cpu", cap_bytes=1, accumulation=1, payload={})
    (tmp_path / "0").mkdir()
    (tmp_path / trial.LOADED).touch()
    failure = Failure(types=("IndexError",), message="IndexError: list index out of range", traceback="")
    TrialReport(phase="train", failure=failure, facts={WORLD_SIZE: 2}).write(tmp_path / "0" / "report.json")
    with subprocess.Popen([sys.executable, "-c", SLEEPS]) as child:
        assert trial._followed(child, tmp_path, orders) == 1 and child.returncode == -signal.SIGKILL
