"""What /proc says of memory is the same whoever asks."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autofit_launcher.common import procfs

MIB = 2**20
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_memory_that_is_taken_is_seen() -> None:
    before, ended = procfs.data_bytes(), 2**22 + 1  # no kernel gives a process a higher number than 2**22
    with mmap.mmap(-1, 64 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as taken:  # the heap may have room of an earlier test's
        assert procfs.data_bytes() - before == pytest.approx(len(taken), rel=0.05)
    assert procfs.leaves_room(ended, free=1) and not procfs.leaves_room(os.getpid(), free=MIB)


def test_who_has_a_file_open_is_told_from_who_has_not(tmp_path: Path) -> None:
    (tmp_path / "held").touch()
    with (tmp_path / "held").open() as held, subprocess.Popen(["sleep", "5"], stdin=held) as child:
        assert procfs.has_open(child.pid, held.fileno()) and procfs.has_open(os.getpid(), str(tmp_path / "held"))
        assert procfs.has_open(child.pid, str(tmp_path)) is False
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended and is still listed
        assert not procfs.has_open(child.pid, held.fileno())


def test_what_autofits_own_threads_take_in_a_process_is_no_work_of_its() -> None:
    code = """
import threading, time
from autofit_launcher.common.procfs import Looks
def spin():
    until = time.thread_time() + 0.2
    while time.thread_time() < until:
        pass
    done.set()
done = threading.Event()
looks = Looks("autofit-test", spin, every_s=0.01)
looks.start()
done.wait()
print(flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline()
        all_of_it, watching = procfs.work_seconds(child.pid), procfs.watching_seconds(child.pid)
        child.kill()
    assert all_of_it >= watching >= 0.15
