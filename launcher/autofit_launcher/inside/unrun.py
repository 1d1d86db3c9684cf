"""Names lines of the person's own files that call the model, a loader or an optimizer and that a trial hasn't reached: a phase that only a
good score, a date or a late epoch opens.

No line is traced. Whatever calls one of these comes by the hooks, which have the person's lines on the stack noted (``heard``); the others
are found by reading the files at the trial's end. Left alone is what a setting decides (``if args.amp``): it stays as it is in the run.
"""

from __future__ import annotations

import ast
import contextlib
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from types import FrameType

MOST_PLACES, MOST_BYTES = 3, 300_000
"""Places that are named at most; bytes of source that are read at most (a tenth of a second for each 100,000)."""
_NUMBERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


class Unrun:
    """The lines that one process has reached."""

    def __init__(self) -> None:
        self._lines: defaultdict[str, set[int]] = defaultdict(set)
        self._direct: defaultdict[str, set[tuple[int, str]]] = defaultdict(set)
        """Pairs (line, kind of thing that it calls itself, not by a function of the person's)."""
        self._through: set[str] = set()
        """Functions of the person's through which one is called."""
        self._seen: dict[tuple[int, int, str], bool] = {}
        """Place in the code -> whether it is of the person's files."""

    def heard(self, kind: str) -> None:
        """A ``model``, a ``loader`` or an ``optimizer`` is called, or ``backward``."""
        frame: FrameType | None = sys._getframe(1)
        direct = True
        while frame is not None:
            place = (id(frame.f_code), frame.f_lasti, kind)
            if place not in self._seen:
                file, line = frame.f_code.co_filename, frame.f_lineno
                self._seen[place] = _is_own(file)
                if self._seen[place]:
                    self._lines[file].add(line)
                    self._direct[file] |= {(line, kind)} if direct else set()
                    self._through.add(frame.f_code.co_name)
            direct = direct and not self._seen[place]
            frame = frame.f_back

    def places(self) -> str:
        """The places in words; nothing where there is none."""
        trees, left = dict[str, ast.Module](), MOST_BYTES
        loaded = [str(getattr(module, "__file__", None)) for module in list(sys.modules.values())]
        for file in dict.fromkeys([*self._lines, *(one for one in loaded if one.endswith(".py") and _is_own(one))]):
            with contextlib.suppress(OSError, ValueError, SyntaxError), open(file, encoding="utf-8") as source:
                left -= os.path.getsize(file)
                trees |= {file: ast.parse(source.read())} if left >= 0 else {}
        known = _known(trees, self._direct) | self._through
        places = [place for file, tree in trees.items() for place in _unreached(file, tree, self._lines[file], known)]
        return f"not run in the trial: {'; '.join(places[:MOST_PLACES])}" if places else ""


def _is_own(file: str) -> bool:
    """Tells whether it is the script, or stands in its folder and isn't a library."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    home, file = os.path.dirname(os.path.realpath(script or sys.executable)), os.path.realpath(file)
    libraries = (os.path.dirname(sys.executable), os.path.dirname(os.path.realpath(os.__file__)))
    return file.startswith(home + os.sep) and "-packages" not in file and not file.startswith(libraries)


def _known(trees: Mapping[str, ast.Module], direct: Mapping[str, set[tuple[int, str]]]) -> set[str]:
    """Names of models, loaders and optimizers, as they were called, and of functions in which one is called."""
    nodes = [(file, node) for file, tree in trees.items() for node in ast.walk(tree)]
    heard = ((node, kind) for file, node in nodes for line, kind in direct.get(file, ()) if line == getattr(node, "lineno", 0))
    names = {_called(node, kind) for node, kind in heard} - {""}
    functions = [node for _, node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return names | {one.name for one in functions if any(_would_be_heard(node, names) for node in ast.walk(one))}


def _called(node: ast.AST, kind: str) -> str:
    """The name of a thing of that kind, which was called in the node's line; of nested calls the innermost is the model's."""
    if kind == "loader" and isinstance(node, ast.For):
        given = node.iter
        while isinstance(given, ast.Call) and given.args:  # enumerate(loader)
            given = given.args[0]
        return _text(given)
    if not isinstance(node, ast.Call):
        return ""
    if kind == "optimizer" and isinstance(node.func, ast.Attribute) and node.func.attr == "step":
        return _text(node.func.value)
    inner = any(isinstance(part, ast.Call) and part is not node and _text(part.func) for part in ast.walk(node))
    return _text(node.func) if kind == "model" and not inner else ""


def _would_be_heard(node: ast.AST, names: set[str]) -> bool:
    if isinstance(node, (ast.For, ast.comprehension)):
        parts = set(ast.walk(node.iter))
        parts -= {part.value for part in parts if isinstance(part, ast.Attribute)}  # optimizer in optimizer.param_groups
        return any(_text(part) in names for part in parts)
    if not isinstance(node, ast.Call):
        return False
    method, of = (node.func.attr, _text(node.func.value)) if isinstance(node.func, ast.Attribute) else ("", "")
    return method == "backward" or (method in ("step", "generate") and of in names) or _text(node.func) in names


def _text(node: ast.AST) -> str:
    """Returns ``name`` or ``self.name``; empty for any other expression."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return f"self.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _unreached(file: str, tree: ast.Module, reached: set[int], names: set[str]) -> Iterator[str]:
    """Branches of which nothing was reached, the outermost of those that may yet open."""
    changing, end = _changing(tree), 0
    for one in sorted((node for node in ast.walk(tree) if isinstance(node, ast.If)), key=lambda node: node.lineno):
        for how, body in (("", one.body), ("the else of ", one.orelse)):
            lines = range(body[0].lineno, (body[-1].end_lineno or 0) + 1) if body else range(0)
            unreached = lines.stop > end and not reached.intersection(lines) and _changes(one.test, changing)
            if unreached and any(_would_be_heard(node, names) for line in body for node in ast.walk(line)):
                end = lines.stop
                place = f"{lines[0]}-{lines[-1]}" if len(lines) > 1 else f"{lines[0]}"
                yield f"{os.path.basename(file)}:{place}, behind {how}`if {ast.unparse(one.test)[:80]}`"


def _changing(tree: ast.Module) -> set[str]:
    """Names that are given more than one value in a file, or by whoever calls."""
    nodes = list(ast.walk(tree))
    stored = Counter(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    loops = [part for node in nodes if isinstance(node, (ast.For, ast.AugAssign, ast.comprehension)) for part in ast.walk(node.target)]
    given = {one.arg for one in nodes if isinstance(one, ast.arg)}
    return ({name for name, times in stored.items() if times > 1} | given | set(map(_text, loops))) - {""}


def _changes(test: ast.expr, changing: set[str]) -> bool:
    """Tells whether it may come to hold as a training goes on: a number that changes, or that a function gives, is compared in it."""
    for one in (node for node in ast.walk(test) if isinstance(node, ast.Compare) and isinstance(node.ops[0], _NUMBERS)):
        parts = list(ast.walk(one))
        words = any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in parts)
        settings = {part.value for part in parts if isinstance(part, ast.Attribute) and not _text(part)}  # args in args.level
        if not words and any(isinstance(part, ast.Call) or (part not in settings and _text(part) in changing) for part in parts):
            return True
    return False
