"""Who runs a run folder: told of the living, the killed, those of other machines, and never mistaken for a later process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.errors import BadInput
from autofit_launcher.history import owner
from autofit_launcher.history.owner import State, owning, who
from tests.helpers import children

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
HOLDS = "import sys, time\nfrom pathlib import Path\nfrom autofit_launcher.history.owner import owning\n"
HOLDS += "with owning(Path(sys.argv[1])):\n    print(flush=True)\n"


def another(folder: Path, then: str = "time.sleep(3600)") -> AbstractContextManager[subprocess.Popen[str]]:
    """Another process that holds the folder, and does so."""
    return children.child(f"{HOLDS}    {then}", str(folder))


def rewritten(folder: Path, **changed: Any) -> None:
    """What owner.json would say in another world."""
    path = folder / owner.NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}) + "\n")


def test_another_process_that_runs_it_is_seen_and_not_disturbed(tmp_path: Path) -> None:
    with another(tmp_path) as child:
        found = who(tmp_path)
        assert found.state is State.RUNNING and found.pid == child.pid
        before = (tmp_path / owner.NAME).read_bytes()
        with pytest.raises(BadInput, match=f"process {child.pid} runs it just now.*autofit stop"), owning(tmp_path):
            pass
        assert (tmp_path / owner.NAME).read_bytes() == before


def test_a_process_that_was_killed_is_told_from_one_that_ended_and_its_folder_can_be_had(tmp_path: Path) -> None:
    with another(tmp_path) as child:
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert who(tmp_path).state is State.KILLED
    with owning(tmp_path):
        assert who(tmp_path).state is State.RUNNING


@pytest.mark.parametrize("locked", [True, False])
def test_a_number_that_was_reused_is_not_the_owner(tmp_path: Path, locked: bool) -> None:
    with another(tmp_path, then="pass") as child:
        child.wait()
    rewritten(tmp_path, pid=os.getpid(), ended="", locked=locked)
    assert who(tmp_path).state is State.KILLED


def test_a_run_before_the_reboot_was_killed_by_it(tmp_path: Path) -> None:
    with owning(tmp_path):
        rewritten(tmp_path, boot="another")
        assert who(tmp_path).state is State.KILLED


def test_another_machines_run_is_left_to_it(tmp_path: Path) -> None:
    with another(tmp_path, then="pass") as child:
        child.wait()
    rewritten(tmp_path, host="node7", boot="another", ended="")
    assert who(tmp_path).state is State.ELSEWHERE
    with (
        pytest.raises(BadInput, match=f"process {child.pid} on node7 runs it since .*can't be seen from .*See to it on node7"),
        owning(tmp_path),
    ):
        pass


def test_another_container_of_this_machine_is_told_by_its_lock(tmp_path: Path) -> None:
    with another(tmp_path):
        rewritten(tmp_path, host="container", pid=1)
        assert who(tmp_path).state is State.RUNNING
    assert who(tmp_path).state is State.KILLED


def test_a_folder_that_can_not_be_written_stops_no_run(tmp_path: Path) -> None:
    with owning(tmp_path / "absent"):
        pass
    (tmp_path / owner.NAME).symlink_to("/dev/full")
    with owning(tmp_path):
        pass


def test_of_many_that_want_a_folder_at_once_one_gets_it(tmp_path: Path) -> None:
    code = f"{HOLDS}    sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    children = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], **pipes) for _ in range(6)]
    until = time.monotonic() + 120
    while len([child for child in children if child.poll() is None]) > 1 and time.monotonic() < until:
        time.sleep(0.05)
    for child in children:
        child.communicate()  # who has the folder holds it until here
    assert sorted(child.returncode for child in children) == [0, 1, 1, 1, 1, 1]
