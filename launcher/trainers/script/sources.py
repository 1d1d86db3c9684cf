"""Reads literals of a script's source. Nothing is run."""

from __future__ import annotations

import ast
from typing import Any


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
