"""A script's source -> where its learning-rate schedule is counted by its own batch size. Read, never run.

``steps = epochs * len(data) // args.batch_size; CosineAnnealingLR(optimizer, T_max=steps)``: told a micro-batch, such a script makes a
schedule that is as many times too long as there are micro-batches in a step. ``len(loader)`` is told right (``native/accumulate.py``).
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from launcher.adapter import wheel_names
from launcher.trainers.script.sources import parsed

_SCHEDULE = re.compile(r"LR$|[Ss]chedule|OneCycle|[Ww]armup")
"""What the last name of a call says that makes a schedule."""


def counted_by_batch(path: Path) -> str:
    """The place of a schedule that is made of a division by the batch size, such as ``train.py, line 57``; nothing where there is none."""
    _, tree = parsed(path)
    if tree is None:
        return ""
    counted = _names_counted_so(tree)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _SCHEDULE.search(ast.unparse(node.func).rpartition(".")[2])]
    for call in calls:
        if any(_counts(argument, counted) for argument in (*call.args, *(keyword.value for keyword in call.keywords))):
            return f"{path.name}, line {call.lineno}"
    return ""


def _names_counted_so(tree: ast.Module) -> frozenset[str]:
    """Names that are given a value of such a division, or of another of those names."""
    counted: frozenset[str] = frozenset()
    given = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    while True:
        more = {name for node in given if _counts(node.value, counted) for target in node.targets if (name := _name(target))}
        if more <= counted:
            return counted
        counted |= more


def _counts(value: ast.expr, counted: frozenset[str]) -> bool:
    for node in ast.walk(value):
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv)) and _is_batch(node.right):
            return True
        if isinstance(node, (ast.Name, ast.Attribute)) and _name(node) in counted:
            return True
    return False


def _is_batch(divisor: ast.expr) -> bool:
    return any(wheel_names.meaning(_name(node).rpartition(".")[2]) == "micro_batch" for node in ast.walk(divisor) if _name(node))


def _name(node: ast.AST) -> str:
    """``steps`` and ``self.steps``; nothing for what is no name."""
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
