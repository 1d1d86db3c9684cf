"""examples/sweep: an Optuna study whose trials are launches of autofit, each at the rung that fits it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.places import ROOT


@pytest.mark.slow
def test_each_trial_of_a_sweep_trains_at_its_own_rung_and_the_same_effective_batch(tmp_path: Path) -> None:
    argv = [sys.executable, str(ROOT / "examples" / "sweep" / "sweep.py"), "--trials", "2", "--memory", "118MiB"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=590, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("COMPLETE") == 2, done.stdout
    records = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("runs/autofit/sweep_*/record.json"))]
    assert [record["effective_batch"] for record in records] == [256, 256]
    assert any(record["rung"]["micro_batch"] < 256 for record in records), "this much memory is too little for one of them at 256"
