"""Finds the files of weights that a script's run may have written, newest first, by names and times alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".tar", ".safetensors")
MOST_ENTRIES = 50_000
"""Of a larger folder only so much is looked at: a run waits for it at its end."""
_NOBODYS = frozenset({"__pycache__", "node_modules", "site-packages"})


def folders(words: Sequence[str]) -> list[Path]:
    """The folders that a command names: ``out``, or ``--output_dir=out``."""
    said = [part for word in words for part in (word, word.partition("=")[2]) if part]
    return [path for path in map(Path, dict.fromkeys(said)) if _is_folder(path)]


def written(places: Sequence[Path], *, since: float, without: Path) -> list[Path]:
    """Files that may hold weights and were written after ``since`` (seconds since 1970), newest first. ``without``: a folder below the
    places that others write to; it is looked at where it is one of them itself, or holds one of them."""
    found: dict[Path, float] = {}
    for path in _below(places, os.path.realpath(without)):
        with suppress(OSError):
            if (time := path.stat().st_mtime) >= since:
                found[path] = time
    return sorted(found, key=lambda path: found[path], reverse=True)


def _below(places: Sequence[Path], without: str) -> Iterator[Path]:
    known: set[str] = set()
    entries = 0
    for place in places:
        if (real := os.path.realpath(place)) in known:
            continue
        known.add(real)
        for folder, inside, names in os.walk(place, followlinks=True):
            entries += len(names) + len(inside)
            if entries > MOST_ENTRIES:
                return
            inside[:] = [name for name in sorted(inside) if _is_the_runs(os.path.join(folder, name), without, known)]
            yield from (Path(folder, name) for name in names if name.endswith(SUFFIXES))


def _is_the_runs(folder: str, without: str, known: set[str]) -> bool:
    """Whether a folder may hold what a run has saved, and wasn't looked at yet: a link may lead back to where it lies."""
    name, real = os.path.basename(folder), os.path.realpath(folder)
    if name.startswith(".") or name in _NOBODYS or real == without or real in known or os.path.exists(os.path.join(folder, "pyvenv.cfg")):
        return False
    known.add(real)
    return True


def _is_folder(path: Path) -> bool:
    with suppress(OSError, ValueError):
        return path.is_dir()
    return False
