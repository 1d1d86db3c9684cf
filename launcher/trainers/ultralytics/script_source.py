"""Where a script's source trains with Ultralytics, and how often; what it does with its model afterwards. Nothing is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from launcher.adapter.python_source import Constants, files_of, parsed
from launcher.errors import PLACE, BadInput, Fault

_MODELS = ("YOLO", "RTDETR", "NAS", "YOLOE", "YOLOWorld", "FastSAM")
_TRAINERS = tuple(f"{kind}Trainer" for kind in ("Detection", "Segmentation", "Pose", "OBB", "Classification", "RTDETR", "World"))
_AFTERWARDS = ("val", "export", "predict", "benchmark", "track")
_OF_VALIDATION = ("batch", "imgsz", "split", "half", "augment", "plots", "save_json", "max_det")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_BRANCHES = (ast.If, ast.Try, ast.Match, ast.IfExp)


@dataclass(frozen=True)
class TrainCall:
    """A training in the source."""

    file: Path
    node: ast.Call
    tree: ast.Module

    @property
    def line(self) -> int:
        return self.node.lineno

    def __str__(self) -> str:
        return f"{self.file.name} line {self.line}"

    @cached_property
    def above(self) -> list[ast.AST]:
        """What the call stands in, innermost first, up to its function (or the file) and with it."""
        parents = {child: parent for parent in ast.walk(self.tree) for child in ast.iter_child_nodes(parent)}
        found: list[ast.AST] = [parents[self.node]]
        while found[-1] in parents and not isinstance(found[-1], _FUNCTIONS):
            found.append(parents[found[-1]])
        return found


def trainings(script: Path) -> list[TrainCall]:
    """Calls of ``train`` in the script, and in the local modules that it imports, where Ultralytics is imported; in their order."""
    found = []
    for file in files_of(script) if script.is_file() else ():
        _, tree = parsed(file)
        if tree is not None and any(name.partition(".")[0] == "ultralytics" for name in _imported(tree)):
            models = set(_models(tree))
            calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _trains(node, models)]
            found += [TrainCall(file, node, tree) for node in sorted(calls, key=lambda node: node.lineno)]
    return found


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def _models(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _is_model(node.value):
            yield from (ast.unparse(target) for target in node.targets)


def _is_model(node: ast.expr) -> bool:
    name = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
    return name in _MODELS or name in _TRAINERS


def _trains(node: ast.Call, models: set[str]) -> bool:
    """``model.train(...)`` with settings: a module of torch's is told no more than ``train(True)``."""
    if not (isinstance(node.func, ast.Attribute) and node.func.attr in ("train", "tune")):
        return False
    settings = [keyword for keyword in node.keywords if keyword.arg != "mode"]
    model = _is_model(node.func.value) or ast.unparse(node.func.value) in models
    return bool(settings and node.func.attr == "train") or (model and not node.args)


# ----------------------------------------------------------------------------------------------------------------------
# How often


def refuse_several(calls: Sequence[TrainCall]) -> None:
    """Raises BadInput for a script that trains again and again. Two trainings of which one is chosen are one."""
    for number, call in enumerate(calls):
        loops = [node for place in (call, *_calls_of_its_function(call)) for node in place.above if isinstance(node, (ast.For, ast.While))]
        if any(not _until_it_works(loop) for loop in loops):
            _several(f"{call} trains in a loop")
        again = next((other for other in calls[number + 1 :] if other.tree is call.tree and _both(call, other)), None)
        if again is not None:
            _several(f"{call} trains, and line {again.line} trains again")


def _calls_of_its_function(call: TrainCall) -> list[TrainCall]:
    """Where the function that trains is called, in its own file."""
    name = getattr(call.above[-1], "name", None)
    called = [node for node in ast.walk(call.tree) if isinstance(node, ast.Call) and name is not None]
    return [TrainCall(call.file, node, call.tree) for node in called if ast.unparse(node.func).rpartition(".")[2] == name]


def _several(found: str) -> None:
    cure = "autofit fits one training a launch: let the script take which one from its command line, and launch it for each."
    raise BadInput([Fault(key=PLACE, found=found, cure=cure)])


def _until_it_works(loop: ast.For | ast.While) -> bool:
    """A loop around a training that is tried again where it fails: only its first training is made."""
    inside = list(ast.walk(loop))
    return any(isinstance(node, ast.Try) for node in inside) and any(isinstance(node, (ast.Break, ast.Return)) for node in inside)


def _both(one: TrainCall, other: TrainCall) -> bool:
    """Whether both run: in the same function (or in none), not in two branches, and not after one that leaves."""
    if one.above[-1] is not other.above[-1] or _in_other_branches(one, other):
        return False
    below = one.above[: one.above.index(_shared(one, other))]
    return not any(isinstance(node, _BRANCHES) and _leaves(node, one) for node in below)


def _shared(one: TrainCall, other: TrainCall) -> ast.AST:
    return next(node for node in one.above if node in other.above)


def _in_other_branches(one: TrainCall, other: TrainCall) -> bool:
    """Of two calls in the same function."""
    shared = _shared(one, other)
    return isinstance(shared, _BRANCHES) and _branch(shared, one) != _branch(shared, other)


def _branch(node: ast.AST, call: TrainCall) -> tuple[str, int]:
    """By which part of a node one comes to the call: the name of its field; of handlers and cases their number, too."""
    for name, value in ast.iter_fields(node):
        parts = value if isinstance(value, list) else [value]
        for number, part in enumerate(parts):
            if isinstance(part, ast.AST) and any(one is call.node for one in ast.walk(part)):
                return name, number if name in ("handlers", "cases") else 0
    raise ValueError(f"{call} stands in no part of line {getattr(node, 'lineno', 0)}")


def _leaves(node: ast.AST, call: TrainCall) -> bool:
    """Whether the branch in which the call stands ends with leaving its function, or the program."""
    statements = getattr(node, _branch(node, call)[0])
    last = statements[-1] if isinstance(statements, list) else None
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return ast.unparse(last.value.func) in ("exit", "quit", "sys.exit", "os._exit")
    return isinstance(last, (ast.Return, ast.Raise, ast.Break, ast.Continue))


# ----------------------------------------------------------------------------------------------------------------------
# What comes after it


def afterwards(script: Path) -> str:
    """What the script does with its model after the training, in words; empty where nothing of it is seen. Validations are tried."""
    return ", ".join(f"{name} (line {node.lineno})" for name, node, _ in _behind(script) if name != "val")


def validations(script: Path) -> list[dict[str, Any]]:
    """Keywords of each validation behind the training, as far as the source spells out those that its memory hangs on."""
    return [dict(_spelled_out(node, Constants(tree))) for name, node, tree in _behind(script) if name == "val"]


def _spelled_out(node: ast.Call, known: Constants) -> Iterator[tuple[str, Any]]:
    for keyword in node.keywords:
        value = known.value(keyword.value)
        given = value if keyword.arg is None and isinstance(value, dict) else {keyword.arg: value}
        yield from ((str(key), one) for key, one in given.items() if key in _OF_VALIDATION and isinstance(one, (bool, int, float, str)))


def _behind(script: Path) -> Iterator[tuple[str, ast.Call, ast.Module]]:
    """(method, call, file) of what is asked of a model further down than the training, or in another function."""
    for call in trainings(script)[:1]:
        for node in ast.walk(call.tree):
            method = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
            if isinstance(node, ast.Call) and method in _AFTERWARDS and _follows(TrainCall(call.file, node, call.tree), call):
                yield method, node, call.tree


def _follows(other: TrainCall, training: TrainCall) -> bool:
    if other.above[-1] is not training.above[-1]:
        return True
    return other.line > training.line and not _in_other_branches(training, other)


# ----------------------------------------------------------------------------------------------------------------------
# Where a number of a call stands


def number_of(file: Path, call: ast.Call, name: str, value: Any) -> ast.expr | None:
    """Where the number stands that a keyword of a call has: there, or in the one entry, attribute or name that it is taken from."""
    _, tree = parsed(file)
    said, spread = _said(call, name)
    if isinstance(said, ast.Constant):
        return said
    found = _bound(tree, _last(said) if said is not None else name, value) if tree is not None and (said or spread) is not None else []
    return found[0] if len(found) == 1 else None


def place_of(file: Path, node: ast.expr) -> str:
    """A place in the words of the file: ``train.py line 37: 'batch': 64``."""
    line = parsed(file)[0].splitlines()[node.lineno - 1].encode()[: node.end_col_offset].decode()
    return f"{file.name} line {node.lineno}: {re.split('[{(,;]', line)[-1].strip()}"


def _said(call: ast.Call, name: str) -> tuple[ast.expr | None, ast.expr | None]:
    """(what a keyword is given, what is given as ``**settings``)"""
    said = next((one.value for one in call.keywords if one.arg == name), None)
    return said, next((one.value for one in call.keywords if one.arg is None), None)


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
