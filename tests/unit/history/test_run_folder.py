"""The run folder: never shared, never torn."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from autofit_launcher.errors import BadInput
from autofit_launcher.history.run_folder import RunFolder

NOW = datetime(2026, 11, 21, 12, 0, 0)


def make(root: str) -> str:
    return str(RunFolder.create(Path(root), "demo", now=NOW).path)


def test_two_launches_at_once_never_share_a_folder(tmp_path: Path) -> None:
    with multiprocessing.Pool(8) as pool:
        folders = pool.map(make, [str(tmp_path)] * 24)
    assert len(set(folders)) == 24


def test_a_name_that_is_no_file_name_is_made_one(tmp_path: Path) -> None:
    assert RunFolder.create(tmp_path, "a b/../c:é", now=NOW).path.name == "a_b_.._c_-20261121-120000"


def test_git_has_nothing_to_say_of_a_run_folder(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    RunFolder.create(tmp_path / "runs" / "autofit", "demo")
    status = subprocess.run(["git", "status", "--porcelain"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert status.stdout == ""


def test_a_root_that_can_not_be_written_is_a_fault_of_run_root(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput) as refused:
        RunFolder.create(tmp_path / "file" / "runs", "demo")
    assert refused.value.faults[0].key == "run.root"
    assert "Set" in refused.value.faults[0].cure or "set" in refused.value.faults[0].cure


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_leaves_the_old_record_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder.create(tmp_path, "demo")
    folder.replace_json(folder.record, {"status": "before"})
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        folder.replace_json(folder.record, {"status": "after"})
    assert json.loads(folder.record.read_text()) == {"status": "before"}
    assert sorted(path.name for path in folder.path.iterdir()) == [".gitignore", "record.json", "trials"], (
        "nothing half-written lies beside"
    )
