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
    found: dict[str, tuple[float, Path]] = {}
    for path in _below(places, os.path.realpath(without)):
        with suppress(OSError):
            if (time := path.stat().st_mtime) >= since:
                found.setdefault(os.path.realpath(path), (time, path))  # a link may lead to it a second time
    return [path for _, path in sorted(found.values(), reverse=True)]


def _below(places: Sequence[Path], without: str) -> Iterator[Path]:
    entries = 0
    for place in places:
        for folder, inside, names in os.walk(place, followlinks=True):
            entries += len(names) + len(inside)
            if entries > MOST_ENTRIES:
                return
            inside[:] = [name for name in sorted(inside) if _may_be_the_runs(folder, name, without)]
            yield from (Path(folder, name) for name in names if name.endswith(SUFFIXES))


def _may_be_the_runs(parent: str, name: str, without: str) -> bool:
    folder = os.path.join(parent, name)
    others = name.startswith(".") or name in _NOBODYS or os.path.exists(os.path.join(folder, "pyvenv.cfg"))
    return not others and os.path.realpath(folder) != without


def _is_folder(path: Path) -> bool:
    with suppress(OSError, ValueError):
        return path.is_dir()
    return False
