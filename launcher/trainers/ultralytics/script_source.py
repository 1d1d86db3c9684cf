"""Whether a script's source trains with Ultralytics, and how often. Nothing is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from launcher.adapter.python_source import files_of, parsed
from launcher.errors import PLACE, BadInput, Fault

_USES = re.compile(r"^\s*(from|import) ultralytics\b", re.MULTILINE)
_MODELS = re.compile(r"(YOLO|RTDETR|NAS|YOLOE|YOLOWorld|FastSAM|\w+Trainer)")
_APART = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)


def trainings(script: Path) -> list[str]:
    """Places (``train.py line 8``) where the script, or a local module that it imports, asks a model of Ultralytics' to train.

    Raises BadInput where it trains again and again; of two trainings one of which is chosen, one is made.
    """
    found = [(file, *parsed(file)) for file in (files_of(script) if script.is_file() else ())]
    using = [(file, _Ways(tree)) for file, source, tree in found if tree is not None and _USES.search(source)]
    for file, ways in using:
        if ways.lines and any(ways.made(body) > 1 for body in ways.bodies):
            said = f"{file.name} line {ways.lines[0]} trains again and again, in a loop or further down"
            cure = "autofit fits one training a launch: let the script take which one from its command line."
            raise BadInput([Fault(key=PLACE, found=said, cure=cure)])
    return [f"{file.name} line {line}" for file, ways in using for line in ways.lines]


class _Ways:
    """The ways through a file's statements, and the trainings on them."""

    def __init__(self, tree: ast.Module) -> None:
        nodes = list(ast.walk(tree))
        assigned = [node for node in nodes if isinstance(node, ast.Assign) and _is_model(node.value)]
        self._models = {ast.unparse(target) for node in assigned for target in node.targets}
        self._functions = {node.name: node.body for node in nodes if isinstance(node, ast.FunctionDef)}
        self.bodies = [tree.body, *self._functions.values()]
        self.lines = sorted(node.lineno for node in nodes if isinstance(node, ast.Call) and self._trains(node))

    def _trains(self, node: ast.Call) -> bool:
        """``model.train(...)`` with settings: a module of torch's is told no more than ``train(True)``."""
        if not (isinstance(node.func, ast.Attribute) and node.func.attr in ("train", "tune")):
            return False
        settings = [keyword for keyword in node.keywords if keyword.arg != "mode"]
        model = _is_model(node.func.value) or ast.unparse(node.func.value) in self._models
        return bool(settings and node.func.attr == "train") or (model and not node.args)

    def made(self, body: Sequence[ast.stmt], within: frozenset[str] = frozenset()) -> int:
        """Trainings on the way through these statements that makes most of them; 2 stands for many."""
        made = 0
        for at, one in enumerate(body):
            if isinstance(one, (ast.For, ast.While)):
                made += self.made(one.body, within) * (1 if _until_it_works(one) else 2)
            elif blocks := [] if isinstance(one, _APART) else _blocks(one):
                rest = self.made(body[at + 1 :], within)
                return made + max(self.made(block, within) + (0 if _leaves(block) else rest) for block in [*blocks, []])
            elif not isinstance(one, _APART):
                made += sum(self._of(node, within) for node in ast.walk(one) if isinstance(node, ast.Call))
        return made

    def _of(self, node: ast.Call, within: frozenset[str]) -> int:
        """Trainings that a call makes, or a function of this file that it calls."""
        name = ast.unparse(node.func).rpartition(".")[2]
        followed = name in self._functions and name not in within
        return self._trains(node) or (self.made(self._functions[name], within | {name}) if followed else 0)


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    """Bodies, branches, handlers and cases of a statement."""
    parts = [value for _, value in ast.iter_fields(node) if isinstance(value, list) and value]
    below = [block for part in parts if not isinstance(part[0], ast.stmt) for one in part for block in _blocks(one)]
    return [part for part in parts if isinstance(part[0], ast.stmt)] + below


def _is_model(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _MODELS.fullmatch(ast.unparse(node.func).rpartition(".")[2]) is not None


def _leaves(body: Sequence[ast.stmt]) -> bool:
    """Whether the statements end with leaving their function, loop or program."""
    last = body[-1] if body else None
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return ast.unparse(last.value.func) in ("exit", "quit", "sys.exit", "os._exit")
    return isinstance(last, _LEAVES)


def _until_it_works(loop: ast.For | ast.While) -> bool:
    """A loop around a training that is tried again where it fails: only its first training is made."""
    kinds = {type(node) for node in ast.walk(loop)}
    return ast.Try in kinds and bool(kinds & {ast.Break, ast.Return})
