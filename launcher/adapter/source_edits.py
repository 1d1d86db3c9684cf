"""The edit that a person would make by hand in a source, as a unified diff: never applied.

A keyword of a call is changed where its number stands: at the call, or in the one dict entry, attribute or name of that name and value.
Where that isn't clear, at the call itself.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from launcher.adapter.python_source import ENCODING, parsed


class Edits:
    """Of several files."""

    def __init__(self) -> None:
        self._spans: dict[Path, list[tuple[int, int, str]]] = {}
        self._whole: dict[Path, str] = {}

    def keyword(self, file: Path, call: ast.Call, name: str, change: tuple[Any, Any]) -> None:
        """A keyword of a call. ``change``: what it is now, and what it shall be."""
        given, wanted = change
        source, _ = parsed(file)
        said, spread = _said(call, name)
        others = [ast.unparse(one.value) for one in call.keywords if one.arg != name]
        shared = said is not None and ast.unparse(said) in others  # another keyword has the same number, which may stay
        stands = number(file, call, name, given)
        if stands is not None and not (shared and stands is not said):
            self._put(file, source, stands, repr(wanted))
        elif said is not None:
            self._put(file, source, said, repr(wanted))
        elif spread is not None:
            self._put(file, source, spread, f"{{**{ast.unparse(spread)}, {name!r}: {wanted!r}}}")
        else:
            self._insert(file, source, call, f"{name}={wanted!r}")

    def expression(self, file: Path, node: ast.expr, wanted: Any) -> None:
        """An argument."""
        self._put(file, parsed(file)[0], node, repr(wanted))

    def constant(self, file: Path, line: int, column: int, wanted: Any) -> None:
        """The number that stands at a place."""
        source, tree = parsed(file)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Constant) and (node.lineno, node.col_offset) == (line, column):
                self._put(file, source, node, repr(wanted))

    def text(self, file: Path, text: str) -> None:
        """A whole file, as it would be."""
        self._whole[file] = text

    def diff(self) -> str:
        """All of it; nothing where nothing is to be edited."""
        return "".join(line for file in (*self._spans, *self._whole) for line in self._of(file))

    def _of(self, file: Path) -> Iterator[str]:
        before = file.read_text(encoding=ENCODING)
        after = self._whole.get(file, before)
        for start, end, text in sorted(set(self._spans.get(file, ())), reverse=True):
            after = after[:start] + text + after[end:]
        name = str(file.relative_to(Path.cwd())) if file.is_relative_to(Path.cwd()) else str(file)
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), f"a/{name}", f"b/{name}", lineterm="")
        yield from (f"{line}\n" for line in lines)

    def _put(self, file: Path, source: str, node: ast.expr, text: str) -> None:
        span = _offset(source, node.lineno, node.col_offset), _offset(source, node.end_lineno or 0, node.end_col_offset or 0)
        self._spans.setdefault(file, []).append((*span, text))

    def _insert(self, file: Path, source: str, call: ast.Call, text: str) -> None:
        """Behind the last argument; a call over several lines gets a line of its own."""
        given = (*call.args, *(one.value for one in call.keywords))
        arguments = sorted(given, key=lambda one: (one.end_lineno or 0, one.end_col_offset or 0))
        if not arguments:
            at = _offset(source, call.end_lineno or 0, call.end_col_offset or 0) - 1
            self._spans.setdefault(file, []).append((at, at, text))
            return
        last = arguments[-1]
        at = _offset(source, last.end_lineno or 0, last.end_col_offset or 0)
        lines = source.splitlines()
        between = f"\n{lines[last.lineno - 1][: len(lines[last.lineno - 1]) - len(lines[last.lineno - 1].lstrip())]}"
        own_line = last.lineno > call.lineno
        self._spans.setdefault(file, []).append((at, at, f",{between if own_line else ' '}{text}"))


def number(file: Path, call: ast.Call, name: str, value: Any) -> ast.expr | None:
    """Where the number stands that a keyword of a call has: there, or in the one entry, attribute or name that it is taken from."""
    _, tree = parsed(file)
    said, spread = _said(call, name)
    if isinstance(said, ast.Constant):
        return said
    found = _bound(tree, _last(said) if said is not None else name, value) if tree is not None and (said or spread) is not None else []
    return found[0] if len(found) == 1 else None


def words(file: Path, node: ast.expr) -> str:
    """A place in the words of the file: ``train.py line 37: 'batch': 64``."""
    line = parsed(file)[0].splitlines()[node.lineno - 1].encode()[: node.end_col_offset].decode()
    return f"{file.name} line {node.lineno}: {re.split('[{(,;]', line)[-1].strip()}"


def _said(call: ast.Call, name: str) -> tuple[ast.expr | None, ast.expr | None]:
    """(what a keyword is given, what is given as ``**settings``)"""
    said = next((one.value for one in call.keywords if one.arg == name), None)
    return said, next((one.value for one in call.keywords if one.arg is None), None)


def _offset(source: str, line: int, column: int) -> int:
    """Where a place of the syntax tree, whose columns are bytes, is in the text."""
    lines = source.splitlines(keepends=True)
    return sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())


def _last(node: ast.expr) -> str:
    """The last name of ``self.config['batch_size']``; nothing where it has none."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        return str(node.args[0].value) if isinstance(node.args[0], ast.Constant) else ""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _bound(tree: ast.Module, name: str, value: Any) -> list[ast.expr]:
    """Where this value is bound to this name, key or attribute."""
    return [one for key, one in _pairs(tree) if key == name and isinstance(one, ast.Constant) and one.value == value]


def _pairs(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            yield from ((str(key.value), one) for key, one in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant))
        elif isinstance(node, ast.Assign):
            yield from ((_last(target), node.value) for target in node.targets)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield _last(node.target), node.value
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "dict":
            yield from ((one.arg, one.value) for one in node.keywords if one.arg)
