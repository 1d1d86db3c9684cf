"""Lets launches of autofit's that want one card take turns, or share it.

A lock file for each device, in a folder that every user of this machine sees. The kernel gives a lock back when its process dies, by
whatever end. Other programs, and launches in containers with a /tmp of their own, know nothing of it: their memory is seen by NVML.
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from launcher.errors import BadInput, Fault

VARIABLE = "AUTOFIT_TURNS"
"""Environment variable that names another folder for the locks."""
LOOK_S = 1.0
"""Between two looks at a device that others have."""


class Turn:
    """A launch's turn, until it is left. Without a file: nobody takes turns here."""

    def __init__(self, file: int | None = None, *, waited: bool = False) -> None:
        self._file = file
        self.waited = waited
        """Another launch had the device before."""

    def __enter__(self) -> Turn:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def take(device: str, *, share: bool, wait: bool, launch: str, told: Callable[[str], None] | None = None) -> Turn:
    """This launch's turn on a device; waits for it as long as other launches have the device.

    ``device``: its identity (a card's UUID); ``share``: launches that all say so have it together; ``launch``: what others are told of
    this one. ``told`` hears who is waited for, once for each. Where ``wait`` is False raises BadInput instead. Where no lock can be
    had (no folder for it, a file system without locks) there are no turns.
    """
    file = _opened(folder() / f"{re.sub(r'[^A-Za-z0-9-]', '_', device)}.lock")
    if file is None:
        return Turn()
    heard, kind = "", fcntl.LOCK_SH if share else fcntl.LOCK_EX
    try:
        while not _locked(file, kind):
            holder = _holder(file)
            if not wait:
                raise BadInput([_taken(holder)])
            if told is not None and holder != heard:
                told(holder)
            heard = holder
            time.sleep(LOOK_S)
        _tell(file, launch)
    except BaseException:
        os.close(file)
        raise
    return Turn(file, waited=bool(heard))


def folder() -> Path:
    """Where the locks lie: not TMPDIR, which is a job's own on many clusters."""
    return Path(os.environ.get(VARIABLE) or "/tmp/autofit-turns")


def _taken(holder: str) -> Fault:
    cure = "Let it wait for its turn (device.when_taken=wait), or let both share the device: device.share=true for each."
    return Fault(key="device.when_taken", found=f"another launch of autofit has the device: {holder}", cure=cure)


def _opened(path: Path) -> int | None:
    """The file, which every user may lock. An existing one is opened plainly: with O_CREAT the kernel refuses others' files in sticky
    folders (fs.protected_regular)."""
    with suppress(OSError):
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.parent.chmod(0o1777)
    for flags in (0, os.O_CREAT | os.O_EXCL, 0):
        with suppress(OSError):
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | flags, 0o666)
            if flags:
                os.fchmod(file, 0o666)  # whatever the umask
            return file
    return None


def _locked(file: int, kind: int) -> bool:
    """False where others have it; True also where the file system knows no locks."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _tell(file: int, launch: str) -> None:
    user = "unknown"
    with suppress(OSError, KeyError, ImportError):
        user = getpass.getuser()
    since = datetime.now().astimezone().isoformat(timespec="seconds")
    line = json.dumps({"launch": launch, "pid": os.getpid(), "user": user, "since": since}).encode() + b"\n"
    with suppress(OSError):
        os.pwrite(file, line, 0)
        os.ftruncate(file, len(line))


def _holder(file: int) -> str:
    """Who has it, as far as it was told; of several that share it, the last one that came."""
    told: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        told = json.loads(os.pread(file, 4096, 0).partition(b"\n")[0])
    if not isinstance(told, dict) or "pid" not in told:
        return "one that has just begun"
    return f"{told.get('launch', 'a launch')} (process {told['pid']}, user {told.get('user', 'unknown')}, since {told.get('since', '?')})"
