"""A trial that forks once holds what its run holds, which doesn't fork."""

from __future__ import annotations

import subprocess
import sys

import pytest

FORKS = """
import contextlib, os, sys
import numpy
with contextlib.suppress(ImportError):
    import scipy.linalg, cv2
from launcher.shared import procfs
from launcher.worker import blas_threads, spare

def held():
    return len(os.listdir("/proc/self/task")), procfs.data_bytes() >> 20

spare.stacks(2)
before = held()
with blas_threads.kept() if sys.argv[1] == "kept" else contextlib.nullcontext():
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)
print(*before, *held())
"""


def _forked(how: str) -> list[int]:
    ended = subprocess.run([sys.executable, "-c", FORKS, how], capture_output=True, text=True, check=True)
    return [int(word) for word in ended.stdout.split()]


def test_threads_and_stacks_are_there_again_after_a_fork() -> None:
    threads, mebibytes, after, mebibytes_after = _forked("kept")
    assert after == threads
    assert abs(mebibytes_after - mebibytes) <= 2


def test_a_plain_fork_ends_them() -> None:
    threads, _, after, _ = _forked("plainly")
    if threads == 1:
        pytest.skip("OpenBLAS has no threads here: one core, or OPENBLAS_NUM_THREADS=1")
    assert after < threads
