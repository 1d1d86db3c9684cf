"""Runs a script with plain values of its own bound otherwise: its file stays as it is, on disk and in tracebacks.

    VALUES='[["CONFIG[\\'batch\\']", 64, 16]]' python values.py train.py

Each order is a name in the script as ``bindings`` has it, the value that stands there, and the one that it shall have. The source is
compiled with the other number in the same place. An order that can't be carried out ends the process: ``NotSet`` says why. Processes that
the script spawns have its own numbers again. This file needs the standard library only.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType, ModuleType
from typing import Any, NamedTuple


class NotSet(RuntimeError):
    """A value isn't where it was when the launch was made, or can't be told from another."""


class Binding(NamedTuple):
    """A plain value that stands in a source, named as a person would: ``CONFIG['batch']``, ``Config.batch_size``, ``BATCH``."""

    name: str
    node: ast.Constant


def bindings(statements: Iterable[ast.AST], prefix: str = "") -> Iterator[Binding]:
    """Finds the plain values that are bound to something, in the order of the source."""
    for node in statements:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from bindings(node.body, f"{node.name}." if isinstance(node, ast.ClassDef) else "")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            target, value = node.targets[0] if isinstance(node, ast.Assign) else node.target, node.value
            both = zip(target.elts, value.elts, strict=False) if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) else ()
            for one, its in both or [(target, value)]:
                yield from _value(its, f"{prefix}{ast.unparse(one)}")
        else:
            yield from bindings((inner for name in _BLOCKS for inner in getattr(node, name, ())), prefix)


_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def _value(node: ast.expr | None, name: str) -> Iterator[Binding]:
    """A number or truth, or those in a dict."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        yield Binding(name, node)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant):
                yield from _value(value, f"{name}[{key.value!r}]")
    elif isinstance(node, ast.Call) and ast.unparse(node.func) == "dict":
        for keyword in node.keywords:
            yield from _value(keyword.value, f"{name}[{keyword.arg!r}]")


def changed(source: bytes | str, path: str, orders: Sequence[tuple[str, Any, Any]]) -> CodeType:
    """The file's code, with the wanted values in it. ``orders``: names, given and wanted values."""
    tree = ast.parse(source, path)
    found = list(bindings(tree.body))
    for name, given, wanted in orders:
        same = [one for one in found if one.name == name and type(one.node.value) is type(given) and one.node.value == given]
        if len(same) != 1:
            what = "it isn't there" if not same else f"it stands in lines {', '.join(str(one.node.lineno) for one in same)}"
            raise NotSet(f"autofit: {name} = {given!r} of {path} can't be set to {wanted!r}: {what}")
        same[0].node.value = wanted
    return compile(tree, path, "exec", dont_inherit=True)


def main(script: str) -> None:
    """Runs the script as ``python script`` would."""
    path = os.path.abspath(script)
    with open(path, "rb") as file:
        code = changed(file.read(), path, json.loads(os.environ["VALUES"]))
    sys.argv, sys.path[0] = sys.argv[1:], os.path.dirname(os.path.realpath(script))
    program = sys.modules["__main__"] = ModuleType("__main__")
    program.__file__ = path
    exec(code, program.__dict__)


if __name__ == "__main__":
    main(sys.argv[1])
