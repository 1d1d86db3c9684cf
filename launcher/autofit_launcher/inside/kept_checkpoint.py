"""Keeps a script's checkpoint as it is while its training isn't over: a trial lets the script come to its end with stubs in the place of
its training, and from what is saved there nobody could go on. Standard library only."""

from __future__ import annotations

import contextlib
import glob
import os
import posix
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from ..common.report import SAVED
from .overlay import FILES

KEPT = "kept"
"""Folder below an overlay's root, beside that of the twins."""


def newest(overlay: Path, how: Mapping[str, Any], *, folder: str = FILES) -> str:
    """The path of the newest checkpoint, as the script knows it; empty where there is none. ``how``: the payload's ``goes_on``."""
    found = _all(overlay / folder, how)
    return max(found, key=os.path.getmtime).removeprefix(str(overlay / folder)) if found else ""


def _all(root: Path, how: Mapping[str, Any]) -> list[str]:
    anywhere = how["newest"].removeprefix("/**/")
    if anywhere != how["newest"]:
        paths = [path for path in _below(str(root)) if PurePath(path).match(anywhere)]
    else:
        paths = [path.rstrip("/") for path in glob.glob(glob.escape(str(root)) + how["newest"], recursive=True)]
    return [path for path in paths if all(map(os.path.exists, (path, *(os.path.join(path, name) for name in how["holds"]))))]


def _below(folder: str) -> Iterator[str]:
    """Paths of all that lies in an overlay's folder. To ``os`` what is there without the overlay lies in it, too."""
    waiting = [folder]
    while waiting:
        with contextlib.suppress(OSError), posix.scandir(waiting.pop()) as entries:
            for one in entries:
                yield one.path
                waiting += [one.path] if one.is_dir(follow_symlinks=False) else []


def keep(overlay: Path, how: Mapping[str, Any]) -> None:
    """Copies the newest one. A full disk is no failure of the script's, nor is a thread of its that removes files: then there is none."""
    try:
        path, before = newest(overlay, how), newest(overlay, how, folder=KEPT)
        if path and (path != before or os.path.getmtime(f"{overlay / FILES}{path}") != os.path.getmtime(f"{overlay / KEPT}{path}")):
            shutil.rmtree(overlay / KEPT, ignore_errors=True)
            there, to = f"{overlay / FILES}{path}", f"{overlay / KEPT}{path}"
            os.makedirs(os.path.dirname(to))
            (shutil.copytree if os.path.isdir(there) else shutil.copy2)(there, to)
    except OSError:
        shutil.rmtree(overlay / KEPT, ignore_errors=True)


def on_disk(overlay: Path, how: Mapping[str, Any] | None) -> dict[str, Any]:
    """Makes the fact SAVED: bytes of all that are there when the trial is over, or of two: the next is written before the last one goes."""
    if how is None or not (path := newest(overlay, how, folder=KEPT)):
        return {}
    there = sum(map(_taken, _all(overlay / FILES, how)))
    return {SAVED: {"at": path, "bytes": max(there, 2 * _taken(f"{overlay / KEPT}{path}"))}}


def _taken(path: str) -> int:
    files = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    return sum(os.lstat(one).st_blocks * 512 for one in (path, *files))


def put_back(overlay: Path, path: str, how: Mapping[str, Any]) -> None:
    """Has the script find the kept one under that path again, and no newer one. Moves it: it may be most of what a disk has."""
    kept, there = f"{overlay / KEPT}{path}", f"{overlay / FILES}{path}"
    saved = os.path.getmtime(kept)
    for other in _all(overlay / FILES, how):
        if os.path.getmtime(other) > saved:
            _remove(other)
    _remove(there)
    os.makedirs(os.path.dirname(there), exist_ok=True)
    os.rename(kept, there)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
