"""autofit train --detach: a launch that nothing of this terminal ends, and whose faults are told here all the same."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from autofit_launcher.history import owner, runs
from autofit_launcher.history.owner import State
from tests.helpers.command_line import answer, autofit
from tests.helpers.idle import place as place

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_a_detached_launch_goes_on_without_its_terminal_and_can_be_watched_and_stopped(place: Path) -> None:
    done = autofit("train", "--detach", "--json", "recipe=idle", cwd=place)
    assert done.returncode == 0, done.stderr
    said = answer(done)
    path = Path(said["run_dir"])
    found = owner.who(path)
    while found.state is State.UNKNOWN:
        time.sleep(0.05)
        found = owner.who(path)
    assert found.state is State.RUNNING and found.pid == said["pid"]
    assert os.getsid(said["pid"]) == said["pid"] != os.getsid(0)
    assert f"autofit stop {path}" in done.stderr
    assert answer(autofit("watch", "--json", str(path), cwd=place))["state"] == "trying"
    assert autofit("stop", str(path), cwd=place).returncode == 0
    assert owner.who(path).state is State.ENDED and runs.run_in(path).state == "interrupted"
    assert "interrupted" in Path(said["log"]).read_text()


def test_a_fault_is_told_here_and_is_the_exit_status(place: Path) -> None:
    done = autofit("train", "--detach", "recipe=idle", "ask.micro_batch=-1", cwd=place)
    assert done.returncode == 1
    assert "ask.micro_batch" in done.stdout and "launched" not in done.stdout and not (place / "runs").exists()


def test_a_run_is_gone_on_with_in_the_background(place: Path) -> None:
    path = Path(answer(autofit("train", "--detach", "--json", "recipe=idle", cwd=place))["run_dir"])
    assert autofit("stop", str(path), cwd=place).returncode == 0
    done = autofit("resume", "--detach", "--json", str(path), cwd=place)
    assert done.returncode == 0, done.stderr
    said = answer(done)
    assert (said["status"], said["run_dir"]) == ("detached", str(path)) and os.getsid(said["pid"]) == said["pid"]
    found = owner.who(path)
    assert found.state is State.RUNNING and found.pid == said["pid"]
    again = autofit("resume", "--detach", str(path), cwd=place)
    assert again.returncode == 1 and "runs it just now" in again.stdout + again.stderr, "a second one is refused here, not in a log"
    assert autofit("stop", str(path), cwd=place).returncode == 0 and runs.run_in(path).state == "interrupted"
