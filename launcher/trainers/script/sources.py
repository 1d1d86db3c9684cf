"""A file of somebody's source -> its text and its syntax tree, made once for all who read it."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path


def parsed(path: Path) -> tuple[str, ast.Module | None]:
    """The text, and its tree, which is for reading only. Nothing and None where it can't be read, or is no Python."""
    try:
        source = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", None
    tree = _tree(source)
    return (source, tree) if tree is not None else ("", None)


@lru_cache(maxsize=256)
def _tree(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
