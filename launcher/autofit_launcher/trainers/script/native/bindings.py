"""Names the plain values of a Python source as a person would: ``CONFIG['batch']``, ``Config.batch_size``, ``BATCH``. Nothing is run.

Beside ``values``; needs the standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


class Binding(NamedTuple):
    """A value that stands in the source."""

    name: str
    node: ast.Constant

    @property
    def value(self) -> object:
        return self.node.value


def bindings(tree: ast.Module) -> list[Binding]:
    """Finds the plain values that are bound to something, in the order of the source."""
    return list(_body(tree.body, ""))


def named(found: Iterable[Binding], name: str, value: object) -> list[Binding]:
    """Returns the bindings of a name with that value."""
    return [one for one in found if one.name == name and type(one.value) is type(value) and one.value == value]


def spelled(name: str) -> str:
    """A name as it is written here, whatever its quotes and spaces; as it is where it is no expression."""
    try:
        return ast.unparse(ast.parse(name.strip(), mode="eval").body)
    except (SyntaxError, ValueError):
        return name.strip()


def _body(statements: Iterable[ast.AST], prefix: str) -> Iterator[Binding]:
    for node in statements:
        blocks = [block for name in _BLOCKS for block in getattr(node, name, ())]
        if isinstance(node, ast.ClassDef):
            yield from _body(node.body, f"{node.name}.")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _body(node.body, "")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            yield from _assigned(node, prefix)
        else:
            yield from _body(blocks, prefix)


def _assigned(node: ast.Assign | ast.AnnAssign, prefix: str) -> Iterator[Binding]:
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        pairs: Sequence[tuple[ast.expr, ast.expr | None]] = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=False))
        for one, value in pairs:
            if value is not None:
                yield from _value(value, f"{prefix}{ast.unparse(one)}")


def _value(node: ast.expr, name: str) -> Iterator[Binding]:
    """A number or truth, or those in a dict."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, (bool, int, float)):
            yield Binding(name, node)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant):
                yield from _value(value, f"{name}[{key.value!r}]")
    elif isinstance(node, ast.Call) and ast.unparse(node.func) == "dict":
        for keyword in node.keywords:
            if keyword.arg:
                yield from _value(keyword.value, f"{name}[{keyword.arg!r}]")
    elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("field", "Field"):
        for keyword in node.keywords:
            if keyword.arg == "default":
                yield from _value(keyword.value, name)


_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
