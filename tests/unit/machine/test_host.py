"""What keeps a run from writing is seen in the file system itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.engine import prepare
from launcher.history.records import RoomRecord
from launcher.machine import host
from launcher.shared.sizes import MIB
from launcher.trial import host_rooms
from tests.helpers import limits


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


def test_a_quota_is_seen_where_the_disk_says_that_it_has_room(tmp_path: Path) -> None:
    with limits.quota(tmp_path, "20M") as runs:
        assert host.disk_free(runs) > 100 * MIB and host.disk_takes(runs, 10 * MIB) == 10 * MIB
        assert 15 * MIB < host.disk_takes(runs, 100 * MIB) < 20 * MIB, "what is asked for is found to a MiB"
        assert host.disk_takes(runs.parent, 100 * MIB) == 100 * MIB and not list(runs.iterdir()), "and given back"
        room = RoomRecord(name=host_rooms.DISK, needed=50 * MIB, there=host.disk_free(runs), headroom=0.1)
        found = host_rooms.short_of([room], runs / "not" / "there" / "yet")
        assert host_rooms.short_of([room]) is None and found is not None and found.there is not None and found.there < 20 * MIB
        assert host_rooms.short_of([room.model_copy(update={"needed": 5 * MIB})], runs) is None
        (fault,) = prepare.disk_faults(runs)
        assert "of disk left, too little for checkpoints" in fault.found
        (runs / "first.pt").write_bytes(os.urandom(10 * MIB))
        os.sync()
        assert host_rooms.short_of([room.model_copy(update={"needed": 15 * MIB})], runs) is None, "10 of them are there"
        found = host_rooms.short_of([room.model_copy(update={"needed": 25 * MIB})], runs)
        assert found is not None and found.there is not None and 15 * MIB < found.there < 20 * MIB


def test_memory_is_not_taken_to_see_whether_it_is_there(tmp_path: Path) -> None:
    mounted(tmp_path, "size=2m")
    try:
        assert host.disk_takes(tmp_path, 100 * MIB) == 100 * MIB, "its own free bytes tell it"
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_a_shells_limit_on_a_files_size_is_told_from_a_full_disk(tmp_path: Path) -> None:
    look = f"print([unwritable.full_disk(Path({str(tmp_path)!r})), unwritable.file_limit()])"
    code = f"from pathlib import Path; from launcher.machine import unwritable; {look}"
    argv = ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh", sys.executable, "-c", code]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert said == "['', 'this shell lets no file become larger than 4 KiB (ulimit -f)']\n"


def test_a_slurm_job_has_the_memory_that_it_was_given_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"SLURM_JOB_ID": "7", "SLURM_MEM_PER_NODE": "500"}
    assert host.job_memory(given) == 500 * 2**20 and host.job_memory({"SLURM_MEM_PER_NODE": "500"}) is None
    assert host.job_memory({"SLURM_JOB_ID": "7", "SLURM_MEM_PER_CPU": "200", "SLURM_CPUS_ON_NODE": "3"}) == 600 * 2**20
    assert host.job_memory({"SLURM_JOB_ID": "7"}) is None and host.job_memory({**given, "SLURM_MEM_PER_NODE": "0"}) is None, "all there is"
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    total, free, machine = host.memory()
    assert (total, free) == (500 * 2**20, 500 * 2**20) and machine > total
