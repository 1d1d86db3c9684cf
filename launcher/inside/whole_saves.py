"""A checkpoint is written beside its place first, and then put there.

A process that is killed in between leaves the one before whole, or none: a script that keeps one file, and Ultralytics' last.pt, would be
left with a torn one. Where the file system has no room for both, or lets no file be made there, it is written over the one before as ever.
torch.save doesn't say why it couldn't write, and what it had written is removed here: so it is asked for before, and told.
So is the folder that accelerate's ``save_state`` writes over: files of two saves would load without a word.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..shared.orders import BEFORE
from ..shared.write_failures import unsaid
from .after_import import after_import

BESIDE = "being-saved"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
LEAST_BYTES, MOST_BYTES = 2**20, 2**28
"""Written behind what there is of a file, to be told why no more goes: as much again, at least and at most so much."""


def install() -> None:
    """In this process, as soon as PyTorch is there."""
    after_import({"torch": _torch, "accelerate.accelerator": _accelerate})


def _torch(module: Any) -> None:
    module.save = whole(module.save)


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


def replaced(path: str | os.PathLike[str], write: Callable[[Any], Any]) -> Any:
    """What ``write`` returns, which gets the path of a file to write. The one that is there is replaced where it is a file of one name."""
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
        if _moved(new, old, before):
            return said
    except Exception as error:
        why = _why_unwritten(new, error)
        shutil.rmtree(folder, ignore_errors=True)
        if before is None or (why not in _NO_ROOM and shutil.disk_usage(os.path.dirname(old)).free > before.st_size):
            if why is not None:
                print(f"{path} could not be written: {os.strerror(why)}", file=sys.stderr, flush=True)
            raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return write(path)


def _why_unwritten(place: str, error: Exception) -> int | None:
    """The number of the operating system's error; None where it isn't known to be one of writing."""
    said = next((number for number in (*_NO_ROOM, errno.EFBIG) if os.strerror(number) in str(error)), None)
    if said is not None or not unsaid(str(error)):
        return said
    try:
        with open(place, "ab", buffering=0) as file:
            left = min(max(LEAST_BYTES, os.stat(place).st_size), MOST_BYTES)
            while left > 0:
                left -= file.write(bytes(left))
    except OSError as refused:
        return refused.errno
    return None


def _moved(new: str, old: str, before: os.stat_result | None) -> bool:
    """Puts a file in another's place; False where its file system can't."""
    with contextlib.suppress(OSError):
        if before is not None:
            os.chmod(new, stat.S_IMODE(before.st_mode))
        os.replace(new, old)
        return True
    return False


_OF_ACCELERATE = re.compile(
    r"((pytorch_)?model|optimizer|scheduler|sampler|dl_state_dict)(_\d+)?\.(bin|safetensors)|scaler\.pt|random_states_0\.pkl|custom_checkpoint_\d+\.pkl"
)
"""All that ``save_state`` writes in one process (accelerate 1.15). A folder with anything else in it is more than such a checkpoint."""


def whole_folder(plain: Callable[..., Any]) -> Callable[..., Any]:
    """An ``Accelerator.save_state`` that writes a folder of one process beside the one of the save before, and puts it there once it is
    whole. A kill between the two renames leaves ``.NAME.before``."""

    @functools.wraps(plain)
    def save_state(self: Any, output_dir: Any = None, *args: Any, **named: Any) -> Any:
        alone = self.num_processes == 1 and not self.project_configuration.automatic_checkpoint_naming
        made = _beside(Path(os.path.realpath(output_dir))) if alone and output_dir is not None else None
        if made is None:
            return plain(self, output_dir, *args, **named)
        place, new, old = made
        try:
            plain(self, str(new), *args, **named)
            os.rename(place, old)
            os.rename(new, place)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
        return Path(output_dir)

    return save_state


def _beside(place: Path) -> tuple[Path, Path, Path] | None:
    """(a checkpoint's folder, an empty one beside it, where it goes meanwhile); None where there is none that could be put aside."""
    new, old = (place.with_name(f".{place.name}.{word}") for word in (BESIDE, BEFORE))
    try:
        if old.exists() and not place.exists():
            os.rename(old, place)
        for left in (new, old):  # by one that was killed
            shutil.rmtree(left, ignore_errors=True)
        names = os.listdir(place)
        if not names or not all(map(_OF_ACCELERATE.fullmatch, names)) or os.path.ismount(place):
            return None
        new.mkdir()
        shutil.copymode(place, new)
    except OSError:
        return None
    return place, new, old
