"""Whole numbers of the person's own files remember where they are written, until one of them arrives where it is used.

In a short look alone (``arriving``): what such a number is given to may not take it for a plain one.
"""

from __future__ import annotations

import ast
import builtins
import os
from collections.abc import Callable
from types import CodeType
from typing import Any

from ..native.values import Sources

_LIBRARY = f"{os.path.dirname(os.path.realpath(os.__file__))}{os.sep}"
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_OURS = f"{os.path.realpath(os.path.join(os.path.dirname(__file__), *['..'] * 4))}{os.sep}"
_MARK = "_autofit_marked"
_KEPT = (ast.MatchValue, ast.JoinedStr)


class Marked(int):
    """A number, and the places it came of, through arithmetic."""

    places: frozenset[str]

    def __new__(cls, value: int, places: frozenset[str]) -> Marked:
        made = int.__new__(cls, value)
        made.places = places
        return made

    def __reduce__(self) -> Any:
        return int, (int(self),)


def _through(name: str) -> Callable[..., Any]:
    real = getattr(int, name)

    def done(self: Marked, *others: Any) -> Any:
        found = real(self, *others)
        return Marked(found, self.places.union(*map(places, others))) if type(found) is int else found

    return done


for _name in ("add", "sub", "mul", "floordiv", "mod", "pow"):
    for _of in (f"__{_name}__", f"__r{_name}__"):
        setattr(Marked, _of, _through(_of))


def places(value: object) -> frozenset[str]:
    return value.places if isinstance(value, Marked) else frozenset()


def persons(path: str) -> bool:
    """Whether a file, by its real path, is the person's own: no library's, and none of ours."""
    return path.endswith(".py") and not path.startswith((_LIBRARY, _OURS)) and not any(part in path for part in _INSTALLED)


class _Marks(ast.NodeTransformer):
    def __init__(self, path: str) -> None:
        self._path = path

    def visit(self, node: ast.AST) -> Any:
        return node if isinstance(node, _KEPT) else super().visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if type(node.value) is not int or node.value < 1:
            return node
        at = ast.Constant(f"{self._path}:{node.lineno}:{node.col_offset}")
        return ast.copy_location(ast.Call(ast.Name(_MARK, ast.Load()), [node, at], []), node)


def _compiled(source: bytes, path: str) -> CodeType:
    tree = _Marks(os.path.realpath(path)).visit(ast.parse(source, path))
    return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


def install() -> None:
    """For this process."""
    setattr(builtins, _MARK, lambda value, place: Marked(value, frozenset((place,))))
    Sources(persons, _compiled).install()
