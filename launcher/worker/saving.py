"""A checkpoint that finds no room in memory is written once more with what the process can do without, or says that it found none.

PyTorch's own words, and those of who tries again, hide it: ``torch.save`` closes its file when it fails, and complains of that. In full
runs its error is a MemoryError then, which nobody takes for a disk that is slow (Ultralytics tries four times, and ends with "I/O operation
on closed file").
"""

from __future__ import annotations

import functools
import io
import os
import traceback
from collections.abc import Callable
from typing import Any

from ..shared.memory_failures import memory_failure
from . import spare
from .after_import import after_import


def install() -> None:
    """In this process, as soon as PyTorch is there."""
    after_import({"torch": _torch})


def _torch(module: Any) -> None:
    module.save = said(module.save)


def said(plain: Callable[..., Any]) -> Callable[..., Any]:
    """A function that saves, whose error is a MemoryError where it found no room in memory."""
    if hasattr(plain, "__wrapped__"):
        return plain

    @functools.wraps(plain)
    def save(obj: Any, f: Any, *args: Any, **named: Any) -> Any:
        at = f.tell() if isinstance(f, io.BytesIO) else None
        again = at is not None or isinstance(f, str | os.PathLike)
        while True:
            try:
                return plain(obj, f, *args, **named)
            except Exception as error:
                if not (found := _of_memory(error)):
                    raise
                traceback.clear_frames(error.__traceback__)
                if not again or not spare.hand_back():
                    raise MemoryError(f"a checkpoint found no room: {found}") from error
            again = False
            if at is not None:
                f.seek(at)
                f.truncate()

    return save


def _of_memory(error: BaseException | None) -> str:
    """The words of the first error of a chain that is one of memory; empty where none surely is: a full disk ends so, too."""
    if error is None:
        return ""
    words, kind = f"{type(error).__name__}: {error}", type(error).__name__
    found = memory_failure(words, types=[kind])
    return _of_memory(error.__cause__ or error.__context__) or (words if found is not None and found.source != "files" else "")
