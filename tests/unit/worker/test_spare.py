"""Stacks that stand ready for threads to come, and go back to the kernel where a limit leaves no other room."""

from __future__ import annotations

import subprocess
import sys

import pytest

HANDS_BACK = """
import resource, sys, threading
from launcher.shared import procfs
from launcher.worker import spare

spare.stacks(2)
ready = procfs.data_bytes()
if sys.argv[1] == "limited":
    resource.setrlimit(resource.RLIMIT_DATA, (ready + (int(sys.argv[2]) << 10), resource.RLIM_INFINITY))
for _ in range(2):
    print(spare.hand_back(), (ready - procfs.data_bytes()) >> 20)
one = threading.Thread(target=print, args=["a thread lives"])
one.start()
one.join()
"""


def _said(how: str, room_kib: int = 0) -> list[str]:
    argv = [sys.executable, "-c", HANDS_BACK, how, str(room_kib)]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()


@pytest.mark.parametrize("room_kib", [512, 8])
def test_stacks_go_back_once_where_a_limit_counts_them(room_kib: int) -> None:
    """With next to nothing left, too: not even a thread's stack."""
    assert _said("limited", room_kib) == ["True 16", "False 16", "a thread lives"]


def test_without_a_limit_they_stay() -> None:
    assert _said("unlimited") == ["False 0", "False 0", "a thread lives"]
