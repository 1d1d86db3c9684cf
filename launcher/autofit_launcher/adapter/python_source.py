"""Reads a Python source: its syntax tree, and the local modules that it imports. Nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

_tree = lru_cache(maxsize=256)(ast.parse)


def parsed(path: Path) -> tuple[str, ast.Module | None]:
    """The text, and its tree, which is for reading only. Nothing and None where it can't be read, or is no Python."""
    with suppress(OSError, SyntaxError, ValueError, RecursionError):
        source = path.read_text(encoding="utf-8-sig", errors="replace")  # editors of Windows put a mark in front
        return source, _tree(source)
    return "", None


def files_of(path: Path) -> Sequence[Path]:
    """The script, and the local modules that it imports itself."""
    return (path, *dict.fromkeys(imported(path, path.parent)))


def imported(path: Path, root: Path) -> Iterator[Path]:
    """Files of the modules that ``path`` imports and that lie beside it, or below ``root`` or the working folder."""
    _, tree = parsed(path)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Import):
            for one in node.names:
                yield from _files((path.parent, root, Path()), one.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            places: Sequence[Path] = (path.parent, root, Path())
            if node.level:
                places = [path.parent.joinpath(*[".."] * (node.level - 1))]
            parts = node.module.split(".") if node.module else []
            yield from _files(places, parts)
            for one in node.names:
                yield from _files(places, [*parts, one.name])


def _files(places: Sequence[Path], parts: Sequence[str]) -> Iterator[Path]:
    """The file of a module, or of its package, in the first place that has it."""
    for place in places if parts else ():
        stem = place.joinpath(*parts)
        for file in (stem.with_suffix(".py"), stem / "__init__.py"):
            if file.is_file():
                yield file.resolve()
                return
