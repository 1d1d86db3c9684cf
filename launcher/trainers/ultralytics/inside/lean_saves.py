"""A checkpoint of Ultralytics that finds no room in memory is put together on the disk.

Loaded into full runs. ``save_model`` (engine/trainer.py of 8.4.190) copies weights and states, and writes all of that into a buffer before
it is written to a file. Where that finds no room it is done once more, with a file in the buffer's place, and with the stacks that
stand ready for threads to come given back. What is saved is the same to the byte.
"""

from __future__ import annotations

import contextlib
import functools
import io
import mmap
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ....worker import spare, splitting
from ....worker.after_import import after_import


def install() -> None:
    """In this process, as soon as Ultralytics' trainer is there."""
    after_import({"ultralytics.engine.trainer": _trainer})


def _trainer(module: Any) -> None:
    module.BaseTrainer.save_model = lean(module.BaseTrainer.save_model)


def lean(plain: Callable[..., Any]) -> Callable[..., Any]:
    """A trainer's ``save_model`` that is called once more where it finds no room; raises its error where it finds none then either."""

    @functools.wraps(plain)
    def save_model(self: Any) -> Any:
        try:
            return plain(self)
        except BaseException as error:
            if not splitting.of_memory(error):
                raise
            traceback.clear_frames(error.__traceback__)
            failed = error.with_traceback(None)
        splitting.give_back()
        spare.hand_back()
        try:
            with _buffers_on_disk(Path(self.wdir)):
                saved = plain(self)
        except OSError as error:  # a disk without room for it
            raise failed from error
        print("\nautofit: a checkpoint found no room in memory and was put together on the disk", file=sys.stderr, flush=True)
        return saved

    return save_model


@contextlib.contextmanager
def _buffers_on_disk(folder: Path) -> Iterator[None]:
    """While open, the ``io.BytesIO`` that ``save_model`` itself makes is a nameless file in that folder."""
    plain: Any = io.BytesIO
    made: list[_OnDisk] = []

    class Buffer(plain):  # type: ignore[misc]
        """A class, since others ask whether something is one."""

        def __new__(cls, *args: Any) -> Any:
            if sys._getframe(1).f_code.co_name != "save_model":
                return plain(*args)
            made.append(_OnDisk(folder))
            return made[-1]

    io.BytesIO = Buffer  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        io.BytesIO = plain  # type: ignore[misc]
        for one in made:
            one.file.close()


class _OnDisk:
    """What ``save_model`` asks of its buffer."""

    def __init__(self, folder: Path) -> None:
        self.file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 closed by who opened it
        self.write, self.flush = self.file.write, self.file.flush

    def getvalue(self) -> mmap.mmap:
        """All bytes. They are pages of the file, which no limit on a process's data counts."""
        self.flush()
        return mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ)
