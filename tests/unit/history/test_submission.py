"""A launch that was handed to SLURM: what its folder and SLURM's word of its job come to, before, between and after its starts."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from autofit_launcher.history import owner, runs, submission
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.history.submission import JobSeen, Submission
from tests.helpers.run_folders import tell

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
ANOTHER_MACHINE = {"host": "n1", "boot": "another"}
QUEUED, STARTED, GONE = JobSeen(state="PENDING", reason="Priority"), JobSeen(state="RUNNING"), JobSeen(state="")


def handed(root: Path) -> RunFolder:
    folder = RunFolder.create(root, "demo")
    (folder.recipe).write_text("name: demo\n")
    said = Submission(job="7", name=folder.path.name, cwd=str(root), handed_in=100.0)
    submission.write(folder.path, said)
    assert submission.read(folder.path) == said
    return folder


def state(folder: RunFolder, seen: JobSeen | None) -> str:
    return runs.run_in(folder.path, look=lambda of: seen if of.job == "7" else None).state


def left(folder: RunFolder, **where: str) -> None:
    """Its process is gone without a word; ``where`` it was, if not here."""
    path = folder.path / owner.NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), **where, "job": "7", "ended": ""}) + "\n")


def test_before_it_has_begun_slurm_says_what_it_is_at(tmp_path: Path) -> None:
    folder = handed(tmp_path)
    assert [state(folder, seen) for seen in (None, QUEUED, STARTED, GONE)] == ["submitted", "pending", "starting", "stopped"]
    assert runs.run_in(folder.path, look=lambda of: QUEUED).at_work and runs.run_in(folder.path).at_work
    assert not runs.run_in(folder.path, look=lambda of: GONE).at_work
    assert runs.run_in(folder.path).began == 100.0


def test_between_two_starts_it_is_pending_and_not_interrupted_and_its_end_is_its_records(tmp_path: Path) -> None:
    folder = handed(tmp_path)
    with owner.owning(folder.path):
        tell(folder, status="running")
        assert state(folder, STARTED) == "running"
        tell(folder, status="interrupted")
    assert [state(folder, seen) for seen in (None, QUEUED, STARTED, GONE)] == ["interrupted", "pending", "starting", "interrupted"]
    tell(folder, status="done", attempts=[{"ended": "done"}])
    assert [state(folder, seen) for seen in (None, QUEUED, STARTED, GONE)] == ["done"] * 4


@pytest.mark.parametrize(("where", "states"), [
    (ANOTHER_MACHINE, ["elsewhere", "pending", "running", "killed"]), ({}, ["killed", "pending", "starting", "killed"]),
], ids=["on another machine", "its node has failed"])  # fmt: skip
def test_slurm_tells_whether_a_run_that_is_not_here_is_at_work(where: dict[str, str], states: list[str], tmp_path: Path) -> None:
    folder = handed(tmp_path)
    with owner.owning(folder.path):
        tell(folder, status="running")
    left(folder, **where)
    assert [state(folder, seen) for seen in (None, QUEUED, STARTED, GONE)] == states


def test_a_job_that_starts_again_knows_that_its_last_start_is_over_whatever_machine_that_was_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
    with owner.owning(tmp_path) as first:
        assert (first.job, first.starts_before) == ("7", 0)
    left(RunFolder(tmp_path), **ANOTHER_MACHINE)
    assert owner.who(tmp_path).state is owner.State.ELSEWHERE, "the same start of it, on another of its machines"
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert owner.who(tmp_path).state is owner.State.KILLED
    with owner.owning(tmp_path) as second:
        assert second.starts_before == 1 and second.pid == os.getpid()
    left(RunFolder(tmp_path), **ANOTHER_MACHINE)
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    assert owner.who(tmp_path).state is owner.State.ELSEWHERE, "another job says nothing of it"
