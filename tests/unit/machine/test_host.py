"""What a child and its workers take of the machine, and what keeps a run from writing, seen from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from autofit_launcher.common.sizes import MIB
from autofit_launcher.machine import host, process
from autofit_launcher.machine.meter import HostMeter, HostUse
from tests.helpers.places import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
FORKS = """
    import mmap, os, sys, time
    def fill(place, mib):
        for _ in range(mib): place.write(bytes(2**20))
        return place
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    held = fill(mmap.mmap(-1, 256 * 2**20, flags=private), 256)
    for _ in range(3):
        if os.fork() == 0:
            own = fill(mmap.mmap(-1, 32 * 2**20, flags=private), 32)
            time.sleep(60)
    file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, 48 * 2**20)
    shared = fill(mmap.mmap(file, 48 * 2**20), 48)
    os.unlink(sys.argv[1])
    time.sleep(2.5)
    os._exit(0)  # at once: a look may come while an interpreter lets go, with its part in one process and in another
"""


def used(tmp_path: Path, code: str, *words: str) -> HostUse:
    meter = HostMeter(tmp_path)
    argv = (sys.executable, "-c", textwrap.dedent(code), *words)
    child = process.start(argv, env={"PYTHONPATH": str(ROOT)}, stdout=tmp_path / "out", stderr=tmp_path / "err")
    meter.begin(child.pid)
    ending = process.wait(child, stderr=tmp_path / "err")
    meter.stop()
    assert ending.returncode == 0, ending.stderr_tail
    return meter.use


def test_what_forked_workers_have_together_counts_once(tmp_path: Path) -> None:
    """Others may give something of /dev/shm back meanwhile, so the better of two counts."""
    use = max((used(tmp_path, FORKS, f"/dev/shm/autofit-test-{os.getpid()}") for _ in range(2)), key=lambda one: one.shared_taken)
    own = (256 + 3 * 32 + 48) * MIB
    assert own <= use.memory_bytes < own + 64 * MIB
    assert use.memory_there is not None and use.memory_there > use.memory_bytes
    assert use.shared_taken >= 48 * MIB and 48 * MIB <= use.shared_mapped < 52 * MIB


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
