"""Has a full run that was begun ahead, while its rung is tried, wait before it changes anything outside of itself.

Its program does what it does without us, in the same order: imports, arguments, data that it reads. The first time that it would write a
file, make or remove one, start a process or connect to anything it waits for its turn, as it does before it uses the device. What a
library does as it is imported (a folder of its own, a look for a shared library) it does in any case. What native code writes isn't seen,
but for ``torch.save``, the port of a process group (``patches``), and ``_UNHEARD``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from types import FrameType
from typing import Any

from .after_import import after_import

_TALKS = {"socket.bind", "socket.connect", "socket.sendmsg", "socket.sendto", "os.kill", "os.killpg"}
_CHANGES = {
    "fcntl.flock", "fcntl.lockf", "os.chmod", "os.chown", "os.exec", "os.fork", "os.forkpty", "os.link", "os.mkdir", "os.posix_spawn",
    "os.remove", "os.rename", "os.rmdir", "os.setxattr", "os.spawn", "os.symlink", "os.system", "os.truncate", "os.utime",
    "sqlite3.connect", "subprocess.Popen",
}  # fmt: skip
"""Python's audit events of what others can see; ``_TALKS``: of what is told them, as a library is imported, too."""
_UNHEARD, _LOCKS = {"_posixshmem": "shm_open", "_posixsubprocess": "fork_exec"}, "multiprocessing.synchronize"
"""Modules of Python -> the function that makes shared memory, or a process (by spawn), without an event; the module of semaphores."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def install(turn: str, wait: Callable[[], None]) -> None:
    """Installs the gate: ``wait`` returns when it is the process's turn, which the file ``turn`` tells. It can't be taken away again."""
    passed = False

    def heard(event: str, args: tuple[Any, ...]) -> None:
        nonlocal passed
        if not passed and (event in _TALKS or (_changes(turn, event, args) and not _by_a_library())):
            wait()
            passed = True

    sys.addaudithook(heard)
    for name, function in _UNHEARD.items():
        with suppress(ImportError):
            module = import_module(name)
            setattr(module, function, _late(getattr(module, function), wait))
    after_import({_LOCKS: lambda module: setattr(module.SemLock, "_make_name", staticmethod(_late(module.SemLock._make_name, wait)))})


def _late(function: Callable[..., Any], wait: Callable[[], None]) -> Callable[..., Any]:
    """Returns the function, before which the process waits for its turn, save where a library is imported."""

    def called(*args: Any, **kwargs: Any) -> Any:
        for_forks = getattr(sys._getframe(1).f_locals.get("self"), "_is_fork_ctx", False)  # a semaphore whose name goes at once
        if not (for_forks or _by_a_library()):
            wait()
        return function(*args, **kwargs)

    return called


def _changes(turn: str, event: str, args: tuple[Any, ...]) -> bool:
    """Tells whether an event changes anything: no folder that there is, no file of Python's own, or of ours."""
    path = str(args[0]) if args else ""
    if path.startswith(turn) or "__pycache__" in path or path == os.devnull:
        return False
    if event == "open":
        return bool(args[2] & _WRITES) and not isinstance(args[0], int)
    return event in _CHANGES and not (event == "os.mkdir" and os.path.isdir(path))


def _by_a_library() -> bool:
    """Tells whether it comes of a library's being imported. A program is none, though it be an installed one (``python -m``)."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") != "__main__" and is_installed(frame.f_code.co_filename)


def is_installed(path: str) -> bool:
    """Tells whether a file is the standard library's, or lies in a folder into which packages are installed."""
    return path.startswith(os.path.dirname(os.__file__) + os.sep) or not {"site-packages", "dist-packages"}.isdisjoint(path.split(os.sep))
