"""Tells who runs a run folder: a process of this machine, nobody any more, or another machine's. Alone writes ``owner.json``.

A process that launches a run, or goes on with one, holds the folder: it writes its number, that number's start time, the machine's boot
and name into ``owner.json``, and keeps the file locked until it ends, by whatever end. The kernel gives a lock back when its process dies,
so a number that was reused, and the processes of another container on this machine, are told from the owner. Where the file system knows
no locks the start time tells. Only another machine's process can't be asked.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from launcher.errors import BadInput, Fault
from launcher.shared import procfs

NAME = "owner.json"
LOOK_S = 0.5
"""Who only looks (``who``) gives the lock back within this."""


class State(StrEnum):
    """What has become of the owner."""

    RUNNING = "running"  # it lives, on this machine
    ENDED = "ended"  # it gave the folder back; the record says how it ended
    KILLED = "killed"  # it is gone and never gave it back (kill -9, a reboot): record.json says what it was doing
    ELSEWHERE = "elsewhere"  # it runs, or ran, on another machine
    UNKNOWN = "unknown"  # nobody is written down: an older autofit's run, or no run at all


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """A process that holds a run folder, or was the last to hold it."""

    pid: int
    started: int
    """The kernel's start time of that process, clock ticks since boot; 0 where it doesn't tell."""
    boot: str
    """The kernel's name for this boot of the machine; empty where it gives none."""
    host: str
    began: str
    """When it took the folder, UTC."""
    ended: str = ""
    """When it gave the folder back; empty until then."""
    locked: bool
    """The file system locks files: the lock tells whether the owner lives."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ownership:
    """What ``who`` finds."""

    state: State
    owner: Owner | None = None
    """None where the state is UNKNOWN."""


def who(folder: Path) -> Ownership:
    """Who holds the folder. Changes nothing."""
    try:
        file = os.open(folder / NAME, os.O_RDONLY)
    except OSError:
        return Ownership(state=State.UNKNOWN)
    try:
        owner, free = _read(file), _lock(file, fcntl.LOCK_SH)
    finally:
        os.close(file)
    return Ownership(state=State.UNKNOWN) if owner is None else Ownership(state=_state(owner, free), owner=owner)


def _state(owner: Owner, free: bool | None) -> State:
    """``free``: nobody holds the lock; None: the file system knows none."""
    here = owner.host == socket.gethostname()
    if owner.ended:
        return State.ENDED
    if owner.boot != boot():
        return State.KILLED if here else State.ELSEWHERE  # this machine has started anew since
    if owner.locked and free is not None:
        return State.KILLED if free else State.RUNNING
    if not here:
        return State.ELSEWHERE  # another container of this machine, where a number is another process
    return State.RUNNING if alive(owner) else State.KILLED


def alive(owner: Owner) -> bool:
    """Whether that very process lives, asked on its own machine; a later process of the same number is another one."""
    with suppress(OSError):
        return procfs.started(owner.pid) == owner.started
    return False


@contextmanager
def owning(folder: Path) -> Iterator[Owner]:
    """While open, this process holds the folder. Raises BadInput, having changed nothing, where another one does.

    A folder that can't be written (a full disk) is no reason to refuse: nobody is told of the run then.
    """
    file, locked = _opened(folder)
    owner = Owner(pid=os.getpid(), started=_started(), boot=boot(), host=socket.gethostname(), began=_now(), locked=locked)
    _write(file, owner)
    try:
        yield owner
    finally:
        _write(file, replace(owner, ended=_now()))
        if file is not None:
            os.close(file)


def _opened(folder: Path) -> tuple[int | None, bool]:
    """(the file, ready to be written, and whether it is locked); no file where the folder can't be written."""
    try:
        file = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError:
        return None, False
    until = time.monotonic() + LOOK_S
    while (free := _lock(file, fcntl.LOCK_EX)) is False and time.monotonic() < until:
        time.sleep(0.02)
    before = _read(file)
    state = State.UNKNOWN if before is None else _state(before, free)
    if free is False or state in (State.RUNNING, State.ELSEWHERE):
        os.close(file)
        raise BadInput([refusal(folder, Ownership(state=State.RUNNING if free is False else state, owner=before))])
    return file, free is True


def refusal(folder: Path, found: Ownership) -> Fault:
    """Why nobody else may run in this folder: its owner lives, or may live."""
    pid = f"process {found.owner.pid}" if found.owner is not None else "another process"
    if found.state is State.ELSEWHERE and found.owner is not None:
        host = found.owner.host
        words = f"{pid} on {host} runs it since {found.owner.began}, or was killed there, which can't be seen from {socket.gethostname()}"
        return Fault(key="", where=str(folder), found=words, cure=f"See to it on {host}.")
    cure = f"`autofit watch {folder}` shows it, `autofit stop {folder}` ends it."
    return Fault(key="", where=str(folder), found=f"{pid} runs it just now", cure=cure)


def _lock(file: int, kind: int) -> bool | None:
    """Whether the lock was had; None where the file system knows none."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


def _read(file: int) -> Owner | None:
    """The first line, which is written in one go; what a longer one has left behind it doesn't count."""
    with suppress(OSError, ValueError, TypeError):
        return Owner(**json.loads(os.pread(file, 4096, 0).partition(b"\n")[0]))
    return None


def _write(file: int | None, owner: Owner) -> None:
    if file is None:
        return
    line = json.dumps(asdict(owner)).encode() + b"\n"
    with suppress(OSError):
        os.pwrite(file, line, 0)
        os.ftruncate(file, len(line))


def _started() -> int:
    with suppress(OSError):
        return procfs.started(os.getpid())
    return 0


def boot() -> str:
    """The kernel's name for this boot of the machine; empty where it gives none."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
