"""Reads plain files alone, and writes a file whole or not at all; turns values into what JSON knows."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO

CODE = (".py", ".pyx", ".pyi", ".so", ".pyd", ".cu", ".cpp", ".c", ".h", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".gin", ".pth")
"""Suffixes of files that may be a program's code or settings."""
MOST_BYTES = 64 << 20
"""Bytes that are read of a file which somebody else may have put there."""


def opened(path: Path) -> BinaryIO:
    """Opens a plain file to read it. Waits for nobody. Raises OSError for a pipe, a folder, a device."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EISDIR, "it is no plain file", str(path))
    return file


def read(path: Path, *, mine: bool = False) -> bytes:
    """Reads a plain file whole. Raises OSError for one that is too large; with ``mine`` also for one that another user may have written."""
    with opened(path) as file:
        status = os.fstat(file.fileno())
        if status.st_size > MOST_BYTES:
            raise OSError(errno.EFBIG, "it is too large", str(path))
        if mine and (status.st_uid != os.geteuid() or status.st_mode & stat.S_IWOTH):
            raise OSError(errno.EACCES, "another user may have written it", str(path))
        return file.read(MOST_BYTES)


def tail(path: Path, *, most_bytes: int = 256 << 10) -> str:
    """The end of a file, as text; empty where it can't be read."""
    with contextlib.suppress(OSError), opened(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most_bytes))
        return file.read(most_bytes).decode("utf-8", errors="replace")
    return ""


def locks(file: int, kind: int) -> bool | None:
    """Takes the lock of an open file and tells whether it got it; None if the file system has no locks."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


def json_object(text: bytes) -> dict[str, Any]:
    """The object that a text of JSON is; empty where it is none."""
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(text)
        return value if isinstance(value, dict) else {}
    return {}


def read_json(path: Path) -> dict[str, Any]:
    """A file's one JSON object; empty where it can't be read."""
    with contextlib.suppress(OSError):
        return json_object(read(path))
    return {}


def replace(path: Path, text: str) -> None:
    """Writes to a file beside, then renames it, so that a reader sees the old file or the new one. Leaves nothing behind on failure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.unlink(missing_ok=True)
        with beside.open("x", encoding="utf-8") as file:  # never through a link that others have put there
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # a write that fails names no file
        raise


def replace_json(path: Path, value: Any) -> None:
    """Replaces a file by this value as JSON, whole or not at all."""
    replace(path, json.dumps(plain(value), indent=2) + "\n")


def written_at(path: Path) -> float:
    """Returns the time at which a file was last written, in seconds since 1970; 0 for what is gone."""
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def plain(value: Any, *, text: Callable[[str], Any] = str) -> Any:
    """Dataclasses, parts of records, enums, paths and tuples as JSON knows them. ``text``: what becomes of a text."""
    if hasattr(value, "written"):
        return plain(value.written(), text=text)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name), text=text) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item, text=text) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, text=text) for item in value]
    if isinstance(value, Enum):
        return value.value
    return text(str(value)) if isinstance(value, (str, Path)) else value


# ----------------------------------------------------------------------------------------------------------------------
# A trainer's words on files that could not be written: Linux's own, strings of PyTorch, real failures on full disks

READ_ONLY = re.compile(r"Read-only file system")
FULL_DISK = re.compile(r"No space left on device|Disk quota exceeded|file write failed|PytorchStreamWriter failed writing")
WHY = re.compile(rf"{READ_ONLY.pattern}|No space left on device|Disk quota exceeded|File too large")
"""Says why a file couldn't be written, whatever else failed of it."""
_UNSAID = re.compile(r"unexpected pos \d+ vs \d+|iostream error")
"""torch.save doesn't say why it couldn't write."""


def maybe_full(words: str) -> str:
    """The first line that a full disk may explain; empty if there is none."""
    return line_of(FULL_DISK, words) or line_of(_UNSAID, words)


def line_of(pattern: re.Pattern[str], words: str) -> str:
    """The first line with such a text; empty if there is none."""
    return next((line.strip()[:400] for line in words.splitlines() if pattern.search(line)), "")
