"""What keeps a run from writing is seen in the file system itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from autofit_launcher.machine import host


def mounted(place: Path, options: str) -> None:
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(place)], capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a disk")


def test_a_full_disk_is_told_from_one_with_room_and_from_one_that_is_read_only(tmp_path: Path) -> None:
    assert not host.disk_full(tmp_path) and host.not_writable(tmp_path) is None
    mounted(tmp_path, "size=2m")
    try:
        assert not host.disk_full(tmp_path)
        (tmp_path / "weights").write_bytes(bytes(2**20 + 2**19))
        assert host.disk_full(tmp_path) and host.not_writable(tmp_path) is None
        assert host.disk_full(tmp_path / "a" / "folder" / "to" / "be")
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)
    mounted(tmp_path, "ro,size=2m")
    try:
        error = host.not_writable(tmp_path)
        assert error is not None and "Read-only" in str(error.strerror) and not host.disk_full(tmp_path)
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_a_slurm_job_has_the_memory_that_it_was_given_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"SLURM_JOB_ID": "7", "SLURM_MEM_PER_NODE": "500"}
    assert host.job_memory(given) == 500 * 2**20 and host.job_memory({"SLURM_MEM_PER_NODE": "500"}) is None
    assert host.job_memory({"SLURM_JOB_ID": "7", "SLURM_MEM_PER_CPU": "200", "SLURM_CPUS_ON_NODE": "3"}) == 600 * 2**20
    assert host.job_memory({"SLURM_JOB_ID": "7"}) is None and host.job_memory({**given, "SLURM_MEM_PER_NODE": "0"}) is None, "all there is"
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    total, free, machine = host.memory()
    assert (total, free) == (500 * 2**20, 500 * 2**20) and machine > total
