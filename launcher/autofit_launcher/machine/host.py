"""Reads this machine's memory (a container's limit included), processor, shared memory and disks from Linux.

Sizes are bytes. Only reads.
"""

from __future__ import annotations

import errno
import functools
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

PART = 0.80
"""Fraction of the available host memory that a launch takes, if nothing else is said."""


def shared_memory_free() -> int | None:
    """Free bytes of /dev/shm, through which data loader workers pass batches; None if there is none."""
    try:
        return shutil.disk_usage("/dev/shm").free
    except OSError:
        return None


def disk_free(path: str | os.PathLike[str]) -> int:
    """Bytes that this user may still write at ``path``, which needn't exist yet."""
    return shutil.disk_usage(_nearest(path)).free


def disk_taken(folder: Path) -> int:
    """Bytes that a folder takes of its disk with all below it, a file of several names once; 0 where there is none."""
    found: dict[int, int] = {}
    for path in (folder, *folder.rglob("*")):
        with suppress(OSError):
            found[path.lstat().st_ino] = path.lstat().st_blocks * 512
    return sum(found.values())


def not_writable(path: str | os.PathLike[str]) -> OSError | None:
    """The error that keeps this user from making files at ``path``, which needn't exist yet; None if there is none, or the disk is full.

    It is tried with an unnamed file: permissions don't tell of a read-only file system, or of what a server forbids.
    """
    try:
        with tempfile.TemporaryFile(dir=_nearest(path)):
            return None
    except OSError as error:
        return error if error.errno not in (errno.ENOSPC, errno.EDQUOT) else None


LEAST_FREE = 2**20
"""A disk with less than this has no room."""


def disk_full(path: str | os.PathLike[str]) -> bool:
    """Tells whether not even a small file can be written there because the disk is full."""
    return disk_free(path) < LEAST_FREE


def read_only(folder: Path) -> str:
    """Says why the run folder can't be written; empty if it can, or if only its disk is full."""
    error = not_writable(folder)
    return f"its run folder {folder} can't be written any more: {error.strerror}" if error is not None else ""


def full_disk(folder: Path) -> str:
    """Names a full disk among those that a training with this run folder writes to; empty if none is."""
    places = {folder: "its run folder", Path.cwd(): "the folder it was launched in", Path(tempfile.gettempdir()): "the temporary folder"}
    return next((f"no room is left on the disk of {what}, {place}" for place, what in places.items() if disk_full(place)), "")


def _nearest(path: str | os.PathLike[str]) -> Path:
    """The nearest folder above that exists and can be seen."""
    place = Path(path).absolute()
    while not os.path.exists(place) and place != place.parent:  # False where looking is forbidden; Path.exists raises there
        place = place.parent
    return place


def memory() -> tuple[int, int, int]:
    """Reads (bytes that this process may use in all, bytes of that available now, bytes of the machine)."""
    machine = psutil.virtual_memory()
    total, free = int(machine.total), int(machine.available)
    group, job = cgroup_memory(), job_memory(os.environ)
    if group is not None and group[0] < total:
        total, free = group[0], min(free, max(0, group[0] - group[1]))
    if job is not None and job < total:
        total, free = job, min(free, job)
    return total, free, int(machine.total)


def job_memory(environ: Mapping[str, str]) -> int | None:
    """Bytes that SLURM gave this process's job on this machine, which it needn't hold it to; None outside of a job, or for all there is."""
    each, times = environ.get("SLURM_MEM_PER_NODE", ""), "1"
    if not each:
        each, times = environ.get("SLURM_MEM_PER_CPU", ""), environ.get("SLURM_CPUS_ON_NODE", "")
    known = "SLURM_JOB_ID" in environ and each.isdecimal() and times.isdecimal()
    return int(each) * int(times) * 2**20 or None if known else None


def oom_kills() -> int:
    """Processes that this kernel has killed for lack of memory since it started; 0 where it doesn't tell."""
    with suppress(OSError, ValueError):
        return int(dict(map(str.split, Path("/proc/vmstat").read_text(encoding="ascii").splitlines())).get("oom_kill", 0))
    return 0


@functools.cache
def cpu_name() -> str:
    """The processor's model and how many logical cores this process may use: "AMD EPYC, 2 cores"."""
    model = platform.machine() or "CPU"
    with suppress(OSError):
        if told := re.search(r"^model name.*?:(.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"), re.MULTILINE):
            model = " ".join(told[1].split())
    return f"{model}, {cores()} core{'' if cores() == 1 else 's'}"


def cores() -> int:
    """Logical cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


CGROUPS, OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def cgroup_memory(root: Path = CGROUPS, own: Path = OWN_CGROUPS) -> tuple[int, int] | None:
    """Reads (limit, bytes in use that can't be reclaimed) of the control group around this process with least room, or None.

    Version 2: memory.max, memory.current, and memory.stat for what files have in the page cache.
    Version 1: memory.limit_in_bytes and its kin under the memory controller.
    https://docs.kernel.org/admin-guide/cgroup-v2.html, .../cgroup-v1/memory.html
    """
    found = []
    with suppress(OSError):
        for line in own.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                names, base = ("memory.max", "memory.current", ""), root
            elif "memory" in controllers.split(","):
                names, base = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"), root / "memory"
            else:
                continue
            group = base / path.lstrip("/")  # in a container it may not exist below the mount, whose own root counts then
            found += [_group_memory(folder, *names) for folder in (group, *group.parents) if folder.is_relative_to(base)]
    return min(filter(None, found), key=lambda group: group[0] - group[1], default=None)


def _group_memory(folder: Path, limit_file: str, used_file: str, prefix: str) -> tuple[int, int] | None:
    """Reads (limit, in use) of a group; None where it isn't limited ("max", or version 1's 2**63 rounded to a page), or doesn't tell."""
    with suppress(OSError, ValueError):
        limit, used = (folder / limit_file).read_text(encoding="ascii").strip(), int((folder / used_file).read_text(encoding="ascii"))
        told = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
        files = sum(int(told.get(f"{prefix}{kind}_file", 0)) for kind in ("inactive", "active"))
        return (int(limit), max(0, used - files)) if limit.isdecimal() and int(limit) < 2**60 else None
    return None
