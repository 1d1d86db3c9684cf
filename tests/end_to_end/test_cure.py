"""A launch whose rung is the asked training only with a cure that needs memory: the rung that is launched has been tried with it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers.command_line import answer, autofit
from tests.helpers.places import SCRIPTS


@pytest.mark.slow
def test_a_cure_that_needs_memory_is_in_the_trial_of_the_rung_that_is_launched(tmp_path: Path) -> None:
    """Micro-batches of 16 need 84 MiB without the cure and 145 MiB with it, those of 8 need 84 MiB with it; the cap is 104 MiB."""
    words = ["device=cpu", "device.memory=168MiB", "trial.fresh=true", "trial.proof_timeout_s=1200"]
    command = [sys.executable, str(SCRIPTS / "fused_head.py"), "--batch-size", "32"]
    done = autofit("run", "--json", *words, "--", *command, cwd=tmp_path, timeout=900, XDG_STATE_HOME=str(tmp_path / "state"))
    said = answer(done)
    tried = [(one["rung"]["micro_batch"], one["verdict"]) for one in said["trials"]]
    assert tried == [(32, "out_of_memory"), (16, "fits"), (16, "out_of_memory"), (8, "fits")], done.stderr
    assert done.returncode == 0 and said["status"] == "done" and len(said["attempts"]) == 1, done.stderr
    assert said["same_training"]["cure"] == {"update": "average"} and "UPDATE=times:0.25" in said["command"]
    assert said["memory"]["run_peak_bytes"] < 1.05 * said["memory"]["trial_peak_bytes"], said["memory"]
