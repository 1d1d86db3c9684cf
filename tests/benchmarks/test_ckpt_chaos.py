"""The parts of `make ckpt-chaos` that train nothing: what is armed and killed, and what is played again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.ckpt_chaos import launch

WRITES = "import os; os.makedirs({run!r}, exist_ok=True); open({run!r} + '/a', 'w').close(); open({run!r} + '/b', 'w').close()"


def ran(out: Path, *, held: str, at: int) -> int:
    """How a process ends that touches three things in the run's folder."""
    env = {
        **os.environ, "PYTHONPATH": str(Path(launch.__file__).parent / "boot"), "AUTOFIT_HELD": held, "AUTOFIT_CHAOS_WATCH": str(out),
        "AUTOFIT_CHAOS_LAUNCHER": "", "AUTOFIT_CHAOS_STRUCK": str(out / "struck"), "CKPT_CHAOS_CRASH_AT": str(at),
    }  # fmt: skip
    return subprocess.run([sys.executable, "-c", WRITES.format(run=str(out / "runs" / "night" / "run"))], env=env, check=False).returncode


def test_the_trainer_is_killed_once_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("ckpt_chaos")
    held, run = str(tmp_path / "runs" / "night" / "held"), tmp_path / "runs" / "night" / "run"
    (tmp_path / "runs" / "night").mkdir(parents=True)
    assert ran(tmp_path, held="", at=3) == 0 and ran(tmp_path, held=str(tmp_path.parent), at=3) == 0, "no process of this run"
    (run / "a").unlink(), (run / "b").unlink(), run.rmdir()
    assert ran(tmp_path, held=held, at=3) == -signal.SIGKILL
    assert [path.name for path in run.iterdir()] == ["a"]
    assert ran(tmp_path, held=held, at=1) == 0 and (run / "b").exists(), "once"
