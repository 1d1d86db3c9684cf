"""Real limits of a machine, around a command: a small /dev/shm in a mount namespace of its own, a control group."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

CGROUPS = Path("/sys/fs/cgroup")


def small_shm(size: str) -> Sequence[str]:
    """Words that stand before a command."""
    mounts = f'mount --make-rprivate / && mount -t tmpfs -o size={size} tmpfs /dev/shm && exec "$@"'
    words = ("unshare", "-m", "sh", "-c", mounts, "sh")
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("only root may give a command a /dev/shm of its own")
    return words


@contextlib.contextmanager
def group(controller: str, limit_file: str, limit: int) -> Iterator[Sequence[str]]:
    """Words that put a command into a group of its own below this process's (version 1), which is gone afterwards."""
    lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    mine = next((path for _, names, path in (line.split(":", 2) for line in lines) if controller in names.split(",")), None)
    folder = CGROUPS / controller / (mine or "/").lstrip("/") / f"autofit-test-{os.getpid()}"
    try:
        if mine is None:
            raise FileNotFoundError(controller)
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        (folder / limit_file).write_text(str(limit))
        yield ("sh", "-c", f'echo $$ > "{folder}/cgroup.procs" && exec "$@"', "sh")
    finally:
        folder.rmdir()
