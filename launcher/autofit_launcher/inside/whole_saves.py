"""A checkpoint that takes the place of another is written beside it first: a run that is killed while it saves leaves the one before.

Trainers write ``last.pt`` over the one before; killed in between (a full node, a time limit, kill -9), the next attempt would be left with
a torn one. Where there is no room for both, or no file can be made there, it is written over the one before as ever.
So is the folder that accelerate's ``save_state`` writes over: files of two saves would load without a word.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..common.files import maybe_full
from .after_import import after_import

BESIDE = "being-saved"
CHECKPOINTS = (".pt", ".pth", ".ckpt")


def install() -> None:
    """Makes the saves of this process whole, as soon as PyTorch is there."""
    after_import({"torch": _torch, "accelerate.accelerator": _accelerate})


def _torch(module: Any) -> None:
    module.save = whole(module.save)
    Path.write_bytes = whole_bytes(Path.write_bytes)  # type: ignore[assignment, method-assign]


def _accelerate(module: Any) -> None:
    module.Accelerator.save_state = whole_folder(module.Accelerator.save_state)


def whole(plain: Callable[..., Any]) -> Callable[..., Any]:
    """A ``torch.save`` that leaves what is there as it is until the new one is whole."""

    @functools.wraps(plain)
    def save(obj: Any, f: Any, *args: Any, **named: Any) -> Any:
        if not isinstance(f, (str, os.PathLike)):
            return plain(obj, f, *args, **named)
        return replaced(f, lambda place: plain(obj, place, *args, **named))

    return save


def whole_bytes(plain: Callable[[Path, Any], int]) -> Callable[[Path, Any], int]:
    """A ``Path.write_bytes`` that does so for checkpoints by their name, as Ultralytics writes its own."""

    @functools.wraps(plain)
    def write_bytes(self: Path, data: Any) -> int:
        if self.suffix not in CHECKPOINTS:
            return plain(self, data)
        return int(replaced(self, lambda place: plain(Path(place), data)))

    return write_bytes


def replaced(path: str | os.PathLike[str], write: Callable[[Any], Any]) -> Any:
    """Returns what ``write`` returns, which gets the path of a file to write. The one that is there is replaced if it has no other name."""
    old = os.path.realpath(path)
    folder = os.path.join(os.path.dirname(old), f".{os.path.basename(old)}.{BESIDE}{os.environ.get('RANK', '')}")
    try:
        before = os.stat(old) if os.path.exists(old) else None
        if before is not None and (not stat.S_ISREG(before.st_mode) or before.st_nlink > 1 or not os.access(old, os.W_OK)):
            return write(path)
        shutil.rmtree(folder, ignore_errors=True)  # of one that was killed
        os.mkdir(folder)
    except OSError:
        return write(path)
    new = os.path.join(folder, os.path.basename(old))  # of the same name: torch.save keeps it in the file
    try:
        said = write(new)
        with contextlib.suppress(OSError):  # a file system that moves nothing
            if before is not None:
                os.chmod(new, stat.S_IMODE(before.st_mode))
            os.replace(new, old)
            return said
    except Exception as error:
        if not maybe_full(str(error)):
            raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return write(path)


def whole_folder(plain: Callable[..., Any]) -> Callable[..., Any]:
    """An ``Accelerator.save_state`` that writes a folder of one process beside the one of the save before, and moves its files there, one
    after the other, once all are whole."""

    @functools.wraps(plain)
    def save_state(self: Any, output_dir: Any = None, *args: Any, **named: Any) -> Any:
        alone = self.num_processes == 1 and not self.project_configuration.automatic_checkpoint_naming
        if not alone or output_dir is None or not os.path.isdir(output_dir):
            return plain(self, output_dir, *args, **named)
        place = Path(os.path.realpath(output_dir))
        new = place.with_name(f".{place.name}.{BESIDE}")
        shutil.rmtree(new, ignore_errors=True)  # of one that was killed
        try:
            plain(self, str(new), *args, **named)
            for one in sorted(new.iterdir()):
                if (place / one.name).is_dir():
                    shutil.rmtree(place / one.name)
                os.replace(one, place / one.name)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        return Path(output_dir)

    return save_state
