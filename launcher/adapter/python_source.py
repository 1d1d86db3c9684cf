"""Reads a Python source: its syntax tree, the local modules that it imports, and the values that it spells out: ``CONFIG["batch"]``,
``Config.batch_size``, ``BATCH * 2``.

Nothing is run. A name counts where it is bound once in the file, or always to the same value, and an entry or attribute where nothing sets
it afterwards.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()
"""The value of an expression that only running it would tell."""
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Mult: operator.mul, ast.Add: operator.add, ast.Sub: operator.sub, ast.FloorDiv: operator.floordiv,
}  # fmt: skip
_UNTOLD = ast.Name(id="", ctx=ast.Load())
"""Of a name that isn't bound to an expression: a parameter, a counter."""
ENCODING = "utf-8-sig"
"""Of sources. Editors of Windows put a mark in front, which Python passes over in a file, and not in a text."""
_DEEPEST = 8
"""Names that are followed from one to the next."""


def parsed(path: Path) -> tuple[str, ast.Module | None]:
    """The text, and its tree, which is for reading only. Nothing and None where it can't be read, or is no Python."""
    try:
        source = path.read_text(encoding=ENCODING, errors="replace")
    except OSError:
        return "", None
    tree = _tree(source)
    return (source, tree) if tree is not None else ("", None)


def fault(path: Path) -> str:
    """Where a file is no Python of this interpreter's version; empty where it is, or can't be read."""
    try:
        ast.parse(path.read_text(encoding=ENCODING, errors="replace"))
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (OSError, ValueError, RecursionError):
        return ""
    return ""


@lru_cache(maxsize=256)
def _tree(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None


def place(file: Path, line: int) -> str:
    """A line of a file in words: ``train.py line 37``."""
    return f"{file.name} line {line}"


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


class Constants:
    """The values of one file."""

    def __init__(self, tree: ast.Module) -> None:
        self._bound: dict[str, list[ast.expr]] = {}
        self._attributes: dict[str, dict[str, ast.expr]] = {}
        for name, value in _bindings(tree):
            self._bound.setdefault(name, []).append(value)
        self._set: dict[str, set[Any]] = {}
        for name, key in _set_afterwards(tree):
            self._set.setdefault(name, set()).add(key)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                own = [one for one in node.body if isinstance(one, (ast.Assign, ast.AnnAssign))]
                self._attributes[node.name] = dict(_bindings(ast.Module(body=list(own), type_ignores=[])))

    def value(self, node: ast.expr, depth: int = 0) -> Any:
        """What an expression comes to, or UNKNOWN."""
        if depth > _DEEPEST:
            return UNKNOWN
        match node:
            case ast.Constant():
                return node.value
            case ast.Name(id=name):
                return self._name(name, depth + 1)
            case ast.List(elts=inner) | ast.Tuple(elts=inner):
                held = [self.value(one, depth + 1) for one in inner]
                return UNKNOWN if UNKNOWN in held else held
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -number
            case ast.Dict():
                return self._dict(node, depth + 1)
            case ast.Call(func=ast.Name(id="dict"), args=[]) if all(keyword.arg for keyword in node.keywords):
                return {str(keyword.arg): self.value(keyword.value, depth + 1) for keyword in node.keywords}
            case ast.Call(func=ast.Attribute(value=held, attr="get"), args=[key, *_]):
                return self._item(self.value(held, depth + 1), self.value(key, depth + 1))
            case ast.Subscript(value=held, slice=key):
                return self._item(self.value(held, depth + 1), self.value(key, depth + 1))
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                return self._attribute(name, attribute, depth + 1)
            case ast.BinOp(left=left, op=op, right=right):
                return _computed(op, self.value(left, depth + 1), self.value(right, depth + 1))
        return UNKNOWN

    def _name(self, name: str, depth: int) -> Any:
        values = [self.value(one, depth) for one in self._bound.get(name, ())]
        same = bool(values) and all(type(one) is type(values[0]) and one == values[0] for one in values)
        if not same or UNKNOWN in self._set.get(name, ()):
            return UNKNOWN
        return {**values[0], **dict.fromkeys(self._set.get(name, ()), UNKNOWN)} if isinstance(values[0], dict) else values[0]

    def _dict(self, node: ast.Dict, depth: int) -> Any:
        held: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            inner = self.value(value, depth)
            if key is None:  # {**defaults, "batch": 8}
                if not isinstance(inner, dict):
                    return UNKNOWN
                held |= inner
            elif isinstance(key, ast.Constant):
                held[key.value] = inner
        return held

    @staticmethod
    def _item(held: Any, key: Any) -> Any:
        return held.get(key, UNKNOWN) if isinstance(held, dict) and isinstance(key, str) else UNKNOWN

    def _attribute(self, name: str, attribute: str, depth: int) -> Any:
        """Of a class, or of a name that is bound to an instance of one: ``cfg = Config()``."""
        made = [one.func.id for one in self._bound.get(name, ()) if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)]
        classes = (name, *(made if len(set(made)) == 1 else ()))
        if any(attribute in self._set.get(one, ()) for one in classes):
            return UNKNOWN
        for cls in classes:
            if attribute in self._attributes.get(cls, ()):
                return self.value(self._attributes[cls][attribute], depth)
        return UNKNOWN


def _bindings(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Every assignment to a plain name, wherever it stands; one that changes a name in place binds it to what can't be told."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((one.id, value) for one in targets if isinstance(one, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case ast.AugAssign(target=ast.Name(id=name)) | ast.NamedExpr(target=ast.Name(id=name)) | ast.arg(arg=name):
                yield name, _UNTOLD


_CHANGES = ("update", "setdefault", "pop", "popitem", "clear")
"""Methods that change a dict."""


def _set_afterwards(tree: ast.AST) -> Iterator[tuple[str, Any]]:
    """(name, entry or attribute) of what is set by itself: ``CONFIG["batch"] = 8``, ``cfg.batch = 8``; UNKNOWN for every entry there is."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute, ctx=ast.Store() | ast.Del()):
                yield name, attribute
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method in _CHANGES:
                yield name, UNKNOWN
            case ast.Subscript(ctx=ast.Store() | ast.Del()):
                yield from _entry(node)


def _entry(node: ast.Subscript) -> Iterator[tuple[str, Any]]:
    """The outermost entry of a name's that ``CONFIG["train"]["batch"]`` is in."""
    while isinstance(node.value, ast.Subscript):
        node = node.value
    if isinstance(node.value, ast.Name):
        yield node.value.id, node.slice.value if isinstance(node.slice, ast.Constant) else UNKNOWN


def _computed(op: ast.operator, left: Any, right: Any) -> Any:
    """Of whole numbers alone."""
    act = _OPERATORS.get(type(op))
    numbers = all(isinstance(one, int) and not isinstance(one, bool) for one in (left, right))
    return act(left, right) if act is not None and numbers and not (act is operator.floordiv and not right) else UNKNOWN
