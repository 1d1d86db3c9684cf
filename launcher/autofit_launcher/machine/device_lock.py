"""Lets launches of autofit that want the same device take turns, or share it.

Each device has a lock file, in a folder that all users of this machine share. The kernel releases a lock when its process dies. Other
programs, and launches in containers with their own /tmp, don't take part: their memory is seen by NVML.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from autofit_launcher.common import files
from autofit_launcher.errors import refusal

VARIABLE = "AUTOFIT_TURNS"
"""Environment variable that names another folder for the locks."""
LOOK_S = 1.0
"""Seconds between two tries to lock a device that others hold."""


class Turn(ExitStack):
    """A launch's turn on its devices, given back as the context ends. Without a lock file nobody takes turns."""

    waited = False
    """Another launch had one of the devices before."""


def take(devices: Sequence[str], *, share: bool, wait: bool, told: Callable[[str], None] | None = None) -> Turn:
    """Waits until no other launch has any of the devices, and returns this launch's turn. All launches take them in the same order: no two
    wait for each other.

    ``devices``: their identities (a card's UUID). ``share``: launches that all set this have them together. ``wait``: False raises BadInput
    instead of waiting. ``told``: called with whom is waited for, once for each device. If no lock is possible (no folder for it, a file
    system without locks), there are no turns.
    """
    with Turn() as turn:
        for device in devices:
            path = folder() / f"{re.sub(r'[^A-Za-z0-9-]', '_', device)}.lock"
            if (file := _opened(path)) is not None:
                turn.callback(os.close, file)
                holder = f"another launch of autofit (`fuser {path}` tells its process)"
                turn.waited |= _wait(file, fcntl.LOCK_SH if share else fcntl.LOCK_EX, holder, wait=wait, told=told)
        waited = turn.waited
        turn = turn.pop_all()
    turn.waited = waited
    return turn


def _wait(file: int, kind: int, holder: str, *, wait: bool, told: Callable[[str], None] | None) -> bool:
    """Locks a file, and tells whether another launch had it before."""
    waited = False
    while files.locks(file, kind) is False:
        if not wait:
            cure = "Let it wait for its turn (device.when_taken=wait), or let both share the device: device.share=true for each."
            raise refusal(f"the device is held by {holder}", cure, key="device.when_taken")
        if told is not None and not waited:
            told(holder)
        waited = True
        time.sleep(LOOK_S)
    return waited


def folder() -> Path:
    """The folder of the lock files; not in TMPDIR, which on many clusters is a job's own."""
    return Path(os.environ.get(VARIABLE) or "/tmp/autofit-turns")


def _opened(path: Path) -> int | None:
    """The file, which every user may lock. An existing one is opened plainly: with O_CREAT the kernel refuses others' files in sticky
    folders (fs.protected_regular)."""
    with suppress(OSError):
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True)  # and not what somebody else has put there meanwhile
            path.parent.chmod(0o1777)
    for flags in (0, os.O_CREAT | os.O_EXCL, 0):
        with suppress(OSError):
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | flags, 0o666)
            if flags:
                os.fchmod(file, 0o666)  # whatever the umask
            return file
    return None
