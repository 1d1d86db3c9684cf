"""The parts of `make ckpt-chaos` that train nothing: what is armed and killed, the table from rows, how far a folder has come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.ckpt_chaos import __main__ as ckpt_chaos
from benchmarks.ckpt_chaos import launch, table

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


def test_the_table_counts_what_was_killed_and_tells_what_did_not_pass() -> None:
    where = {"commit": "abc1234", "versions": {"torch": "2.15.0"}}
    row = {"training": "yolo", "who": "job", "point": "#4 open:last.pt [torn]", "verdict": "PASS", "crashed": True, "drift": False, **where}
    bad = {**row, "point": "#7 open:last.pt [torn]", "verdict": "HARD_FAIL", "came_to": 3, "went_on_from": 1}
    page = table.document([row, bad, {**row, "point": "no crash (control)", "crashed": False}])
    assert "**2 runs killed: 1 pass, 0 lost work, 0 silent divergence, 1 hard fail**; at most 2 intervals" in page
    assert "| yolo | job | 2 | 1 | 0 | 0 | 1 | 2 |" in page
    assert "| yolo | job | `#7 open:last.pt [torn]` | HARD_FAIL | 3 | 1 | abc1234 |" in page and "1 more weren't killed" in page
    again = table.document([row, bad, {**bad, "verdict": "PASS", "commit": "def5678", "went_on_from": 2}])
    assert "**2 runs killed: 2 pass" in again and "## Not passed" not in again
    assert "| yolo | job | `#7 open:last.pt [torn]` | HARD_FAIL | abc1234 | PASS | def5678 |" in again
    assert ckpt_chaos.again([row, bad], "yolo", "job") == [(7, "torn")]
    assert ckpt_chaos.again([bad, {**bad, "verdict": "PASS"}], "yolo", "job") == ckpt_chaos.again([bad], "text", "job") == []
