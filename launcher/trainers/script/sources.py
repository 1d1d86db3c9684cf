"""Follows a script's source to the local modules that it imports, and reads literals of it. Nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from launcher.adapter.python_source import parsed


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


def literal(node: ast.expr | None) -> Any:
    """The value that an expression spells out; None where it is no literal."""
    try:
        return ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None


def numbers(tree: ast.Module) -> dict[str, Any]:
    """Name -> number of the assignments at the top of a file: ``batch_size = 12``."""
    found = {}
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if isinstance(node, ast.Assign) and isinstance(target, ast.Name) and (value := _number(node.value)) is not None:
            found[target.id] = value
    return found


def _number(node: ast.expr) -> Any:
    """A literal, or a product of whole numbers such as ``5 * 8``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _number(node.left), _number(node.right)
        return left * right if isinstance(left, int) and isinstance(right, int) else None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)) else None
