"""Tells which process runs a run folder, here or on another machine, if any. The only module that writes ``owner.json``.

A process that launches or resumes a run holds its folder: it writes its process id, host and boot id into ``owner.json`` and keeps the file
open and locked until it ends. The kernel releases the lock when the process dies, so a reused process id, or one in another container
of this machine, isn't mistaken for the owner. On file systems without locks it is who has the file open. Another machine's process
can't be checked.
"""

from __future__ import annotations

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
from typing import Annotated

from pydantic import Field, TypeAdapter

from autofit_launcher.common import files, procfs
from autofit_launcher.errors import BadInput, Fault
from autofit_launcher.history import submission
from autofit_launcher.paths import typed

NAME = "owner.json"
LOOK_S = 0.5
"""A process that only asks (``who``) holds the lock for less than this."""


class State(StrEnum):
    """The owner's state, as far as it is known."""

    RUNNING = "running"  # it lives, on this machine
    ENDED = "ended"  # it gave the folder back; the record says how it ended
    KILLED = "killed"  # it is gone and never gave it back (kill -9, a reboot): record.json says what it was doing
    ELSEWHERE = "elsewhere"  # it runs, or ran, on another machine
    UNKNOWN = "unknown"  # nobody is written down: an older autofit's run, or no run at all


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """The process that holds a run folder, or last held it; empty where nobody is written down."""

    pid: Annotated[int, Field(ge=0, lt=2**31)] = 0
    boot: str = ""
    host: str = ""
    began: str = ""
    """Time at which it took the folder, UTC."""
    ended: str = ""
    """Time at which it released the folder, UTC; empty until then."""
    locked: bool = False
    """The file system has locks, so that the lock tells whether the owner lives."""
    job: str = ""
    """Id of the SLURM job that it runs in; empty outside of one."""
    starts_before: int = 0
    """Times that the job was queued again before."""
    state: State = State.UNKNOWN
    """The owner's state, as far as it is known here and now; not written down."""


_SHAPE = TypeAdapter(Owner)


def who(folder: Path) -> Owner:
    """Finds out who holds the folder. Changes nothing."""
    try:
        file = os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # nobody waits for a pipe in its place
    except OSError:
        return Owner()
    try:
        owner = _read(file)
        return replace(owner, state=_state(owner, files.locks(file, fcntl.LOCK_SH), file))
    finally:
        os.close(file)


def _state(owner: Owner, free: bool | None, file: int) -> State:
    """Tells the owner's state. ``free``: nobody holds the lock of ``file``; None: the file system has no locks."""
    here = owner.host == socket.gethostname()
    if not owner.pid:
        return State.UNKNOWN
    if owner.ended:
        return State.ENDED
    if owner.job and owner.job == submission.job_here() and owner.starts_before < submission.starts_before():
        return State.KILLED  # SLURM starts a job again only when its last start is over, on whatever machine that was
    if owner.boot != boot():
        return State.KILLED if here else State.ELSEWHERE  # this machine has started anew since
    if owner.locked and free is not None:
        return State.KILLED if free else State.RUNNING
    if not here:
        return State.ELSEWHERE  # another container of this machine, where a number is another process
    return State.RUNNING if procfs.has_open(owner.pid, file) is not False else State.KILLED


@contextmanager
def owning(folder: Path) -> Iterator[Owner]:
    """Holds the folder for this process while it is open. Raises BadInput, having changed nothing, if another process holds it.

    If the folder can't be written (a full disk), the run goes on, but other processes can't see that it is running.
    """
    file, locked = _opened(folder)
    owner = Owner(
        pid=os.getpid(), boot=boot(), host=socket.gethostname(), began=now(), locked=locked,
        job=submission.job_here(), starts_before=submission.starts_before(), state=State.RUNNING,
    )  # fmt: skip
    _write(file, owner)
    try:
        yield owner
    finally:
        _write(file, replace(owner, ended=now()))
        if file is not None:
            os.close(file)


def _opened(folder: Path) -> tuple[int | None, bool]:
    """Returns (file descriptor of ``owner.json``, True if it is locked); None for the descriptor if the folder can't be written."""
    try:
        file = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError:
        return None, False
    until = time.monotonic() + LOOK_S
    while (free := files.locks(file, fcntl.LOCK_EX)) is False and time.monotonic() < until:
        time.sleep(0.02)
    before = _read(file)
    before = replace(before, state=_state(before, free, file) if free is not False else State.RUNNING)
    if before.state in (State.RUNNING, State.ELSEWHERE):
        os.close(file)
        raise BadInput([refusal(folder, before)])
    return file, free is True


def refusal(folder: Path, found: Owner) -> Fault:
    """The fault for a folder whose owner lives, or may live."""
    pid = f"process {found.pid}" if found.pid else "another process"
    if found.state is State.ELSEWHERE:
        words = f"{pid} on {found.host} runs it since {found.began}, or was killed there, which can't be seen from {socket.gethostname()}"
        return Fault(key="", where=str(folder), found=words, cure=f"See to it on {found.host}.")
    cure = f"`{typed('watch', folder)}` shows it, `{typed('stop', folder)}` ends it."
    return Fault(key="", where=str(folder), found=f"{pid} runs it just now", cure=cure)


def _read(file: int) -> Owner:
    """The first line, which is written in one go; what a longer one has left behind it doesn't count."""
    with suppress(OSError, ValueError):
        return _SHAPE.validate_json(os.pread(file, 4096, 0).partition(b"\n")[0])
    return Owner()


def _write(file: int | None, owner: Owner) -> None:
    if file is None:
        return
    line = json.dumps({name: value for name, value in asdict(owner).items() if name != "state"}).encode() + b"\n"
    with suppress(OSError):
        os.pwrite(file, line, 0)
        os.ftruncate(file, len(line))


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def boot() -> str:
    """The kernel's name for this boot of the machine; empty where it gives none."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""
