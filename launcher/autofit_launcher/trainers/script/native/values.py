"""Gives plain values of a script's own other ones as it binds them: its files stay as they are, on disk and in tracebacks.

As ``_autofit_values.py`` beside a ``sitecustomize.py`` that loads it, in a folder of their own, for every Python process of a command:

    PYTHONPATH=/that/folder VALUES='[["/home/me/train.py", "CONFIG[\\'batch\\']", 64, 16]]' python train.py

Each order is a file, a name in it as ``bindings`` has it, the value that stands there, and the one that it shall have. A source is
compiled with the other number in the same place. An order that can't be carried out ends the process: ``NotSet`` says why.
This file needs the standard library only.
"""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, ModuleType
from typing import Any, NamedTuple

VARIABLE = "VALUES"
Order = tuple[str, Any, Any]
"""Name, given and wanted value."""


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


def changed(source: bytes | str, path: str, orders: Sequence[Order]) -> CodeType:
    """The file's code, with the wanted values in it."""
    tree = ast.parse(source, path)
    found = list(bindings(tree.body))
    for name, given, wanted in orders:
        same = [one for one in found if one.name == name and type(one.node.value) is type(given) and one.node.value == given]
        if len(same) != 1:
            what = "it isn't there" if not same else f"it stands in lines {', '.join(str(one.node.lineno) for one in same)}"
            raise NotSet(f"autofit: {name} = {given!r} of {path} can't be set to {wanted!r}: {what}")
        same[0].node.value = wanted
    return compile(tree, path, "exec", dont_inherit=True)


class Sources:
    """Files of the program that are compiled otherwise than Python would: path -> what shall be bound otherwise in it."""

    def __init__(self, orders: dict[str, list[Order]]) -> None:
        self._orders = orders

    def has(self, path: str) -> bool:
        return os.path.realpath(path) in self._orders

    def compiled(self, source: bytes, path: str) -> CodeType:
        return changed(source, path, self._orders[os.path.realpath(path)])

    def install(self) -> None:
        """Hooks into Python's own ways of getting a file's code; a compiled copy is neither read nor written."""
        sys.path_hooks.insert(0, self._main)
        get_code = importlib.machinery.SourceFileLoader.get_code

        def code_of(this: Any, name: str) -> CodeType | None:
            path = this.get_filename(name)
            return self.compiled(this.get_data(path), path) if self.has(path) else get_code(this, name)

        importlib.machinery.SourceFileLoader.get_code = code_of  # type: ignore[assignment,method-assign]

    def _main(self, path: str) -> _Main:
        if not self.has(path):
            raise ImportError(path)
        return _Main(path, self.compiled)


class _Main:
    """The script, to Python's start, and to ``runpy`` in children that are spawned: both ask whether its path is a folder or an archive
    with a ``__main__``, and this one is."""

    def __init__(self, given: str, compiled: Callable[[bytes, str], CodeType]) -> None:
        self._given, self._compiled = given, compiled

    def find_spec(self, name: str, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_file_location("__main__", self._given, loader=self) if name == "__main__" else None  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(self.get_code("__main__"), module.__dict__)

    def is_package(self, name: str) -> bool:
        return False

    def get_code(self, name: str) -> CodeType:
        """Returns the code that makes the module one that ``python script.py`` makes, and then runs the script."""
        if sys.path and sys.path[0] == self._given:
            sys.path[0] = os.path.dirname(os.path.realpath(self._given))
        with open(self._given, "rb") as file:
            _PROGRAM.append((self._given, self._compiled(file.read(), self._given)))
        return compile(f"import sys; exec(sys.modules[{__name__!r}].as_main(globals()), globals())", "<autofit>", "exec")


_PROGRAM: list[tuple[str, CodeType]] = []


def as_main(names: dict[str, Any]) -> CodeType:
    """The names of a module that runs as the program, and its code."""
    script, code = _PROGRAM[-1]
    loader = importlib.machinery.SourceFileLoader("__main__", script)
    names.update(__spec__=None, __cached__=None, __package__=None, __file__=script, __loader__=loader)
    names.pop("sys", None)
    return code


def begin() -> None:
    """Begins in this process: the sitecustomize that has loaded this file calls it before the program begins."""
    said = json.loads(os.environ.get(VARIABLE) or "[]")
    sources: dict[str, list[Order]] = {}
    for path, name, given, wanted in said:
        sources.setdefault(os.path.realpath(path), []).append((name, given, wanted))
    if sources:
        Sources(sources).install()
