"""A run folder and a fault -> the fault, done to that run from outside. Nothing of the trainer or of autofit is edited."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from autofit_launcher.common import procfs

SAMPLE_S = 0.02


def trainers(launcher_pid: int, folder: Path) -> list[psutil.Process]:
    """The trainer's own process of the run in ``folder``, first; its descendants behind it. Empty while none runs, or a trial does."""
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(launcher_pid).children():
            with contextlib.suppress(psutil.Error):
                words = child.cmdline()
                if "autofit_launcher.inside" not in words and child.environ().get("AUTOFIT_HELD", "").startswith(str(folder)):
                    return [child, *child.children(recursive=True)]
    return []


def trial(launcher_pid: int) -> list[psutil.Process]:
    """The trial's process that trains, first (or what starts its ranks); what is below it behind it. Empty while none runs."""
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(launcher_pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if "autofit_launcher.inside" in child.cmdline():
                    return [child, *child.children(recursive=True)]
    return []


def take_memory(process: psutil.Process, *, part: float = 0.4, watch_s: float = 1.0, until: Callable[[], bool] | None = None) -> int:
    """Lowers what the process may have to ``part`` of the way from the least to the most that it has had within ``watch_s``.

    So that its next large allocation fails as on a full machine. Returns the new limit in bytes.
    """
    seen = []
    end = time.monotonic() + watch_s
    while time.monotonic() < end and not (until is not None and until()):
        seen.append(procfs.data_bytes(process.pid))
        time.sleep(SAMPLE_S)
    limit = int(min(seen) + part * (max(seen) - min(seen)))
    _, hard = resource.prlimit(process.pid, resource.RLIMIT_DATA)
    resource.prlimit(process.pid, resource.RLIMIT_DATA, (limit, hard))
    return limit


def stop(process: psutil.Process) -> None:
    """As a process that hangs for good: it takes no signal but KILL any more."""
    process.suspend()


def loader_workers(trainer: psutil.Process) -> list[psutil.Process]:
    """Of a data loader: forked, and so of the trainer's own words; helpers of multiprocessing have others."""
    mine = trainer.cmdline()
    return [one for one in trainer.children() if one.cmdline() == mine and one.status() != psutil.STATUS_ZOMBIE]


def killed(processes: Sequence[psutil.Process]) -> bool:
    """Whether there was one to kill."""
    for one in processes[-1:]:
        one.kill()
    return bool(processes)


def no_larger_files(process: psutil.Process, most_bytes: int) -> None:
    """From now on no file that the process writes gets longer: a checkpoint is torn in the middle, as on a full disk."""
    _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most_bytes, hard))


def few_files(process: psutil.Process, more: int = 0) -> None:
    """From now on it may open so many files more than it has."""
    _, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (process.num_fds() + more, hard))


SHM_BYTES = 64 * 2**20
GROUP_BYTES = 4 * 2**20, 48 * 2**20
"""The least and the most that a process still gets in the control group into which it is put: what it had is charged to the one that it
came from."""
_CGROUPS = Path("/sys/fs/cgroup/memory")


def own_mount(place: str, size_bytes: int, *, filled_bytes: int = 0) -> list[str]:
    """Words before a command that give it a small file system of its own there, of which others have taken a part."""
    filled = f" && head -c {filled_bytes} /dev/zero > {place}/of-others" if filled_bytes else ""
    mounts = f'mount --make-rprivate / && mount -t tmpfs -o size={size_bytes} tmpfs "{place}"{filled} && exec "$@"'
    return ["unshare", "-m", "sh", "-c", mounts, "sh"]


def fill(folder: Path, *, left: int = 0) -> Path:
    """As others would, to the last bytes. Returns the file that does it."""
    file = folder / "of-others"
    with contextlib.suppress(OSError), file.open("wb", buffering=0) as filled:
        while filled.write(bytes(2**20)):
            pass
    os.truncate(file, max(0, file.stat().st_size - left))
    return file


def into_a_small_group(processes: Sequence[psutil.Process], name: str, size_bytes: int) -> Path:
    """Version 1. Returns the group's folder, to be removed once they are gone."""
    lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    mine = next(path for _, names, path in (line.split(":", 2) for line in lines) if "memory" in names.split(","))
    folder = _CGROUPS / mine.lstrip("/") / name
    folder.mkdir(exist_ok=True)
    (folder / "memory.limit_in_bytes").write_text(str(size_bytes))
    for one in processes:
        with contextlib.suppress(OSError):  # gone meanwhile
            (folder / "cgroup.procs").write_text(str(one.pid))
    return folder


def corrupt(path: Path, how: str) -> None:
    """Tears a file, fills it with zeros from its middle on, or flips one bit in there."""
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    if how == "cut":
        data = data[:middle]
    elif how == "zeros":
        data[middle:] = bytes(len(data) - middle)
    else:
        data[middle] ^= 0x10
    path.write_bytes(data)
