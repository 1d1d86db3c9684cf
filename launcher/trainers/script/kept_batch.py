"""A whole batch that a script keeps by itself, found in its source: ``accumulation = 524288 // (B * T * world_size)``. Nothing is run.

Whatever its micro-batch is, such a script takes as many of them to a step as its whole batch needs. So the micro-batch alone is turned.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from launcher.adapter import wheel_names
from launcher.adapter.python_source import files_of, parsed
from launcher.adapter.python_source import place as written
from launcher.adapter.recognised import Belief
from launcher.trainers.script.batches import is_count
from launcher.trainers.script.source_values import Place, last, of_file
from launcher.trainers.script.spelling import ITSELF

_RANKS = ("world_size", "num_processes", "num_gpus", "n_gpus", "ngpus", "nproc", "num_replicas")


class KeptBatch(NamedTuple):
    """The division that says it."""

    part: Place
    """The micro-batch."""
    accumulation: int
    source: str

    def beliefs(self) -> dict[str, Belief]:
        steps = Belief(wheel="accumulation", value=self.accumulation, spelling=ITSELF, source=self.source)
        return {"micro_batch": self.part.belief("micro_batch"), "accumulation": steps}


def found(script: Path, *, ranks: int) -> KeptBatch | None:
    """The only one in the script and its modules; None where there is none, or where a number of it isn't written there."""
    all_of_them = [one for file in files_of(script) for one in _divisions(file, ranks)]
    return all_of_them[0] if len(all_of_them) == 1 else None


def _divisions(file: Path, ranks: int) -> Iterator[KeptBatch]:
    _, tree = parsed(file)
    named: dict[str, list[Place]] = {}
    for one in of_file(file):
        named.setdefault(one.name, []).append(one)
    numbers = {name: places[0] for name, places in named.items() if len(places) == 1 and is_count(places[0].value)}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and _is_accumulation(node.targets[0]):
            divided = _division(node.value)
            if divided is not None and (kept := _kept(*divided, numbers, ranks)) is not None:
                yield KeptBatch(*kept, f"{written(file, node.lineno)}: {ast.unparse(node)}")


def _is_accumulation(target: ast.expr) -> bool:
    return wheel_names.meaning(last(ast.unparse(target))) == "accumulation"


def _division(node: ast.expr) -> tuple[ast.expr, list[ast.expr]] | None:
    """(what is divided, by what), through ``int(...)``, ``round(...)`` and ``max(1, ...)``."""
    while isinstance(node, ast.Call) and ast.unparse(node.func) in ("int", "round", "max", "math.ceil", "math.floor"):
        inner = [one for one in node.args if not isinstance(one, ast.Constant)]
        if len(inner) != 1:
            return None
        node = inner[0]
    by: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Div)):
        by += _factors(node.right)
        node = node.left
    return (node, by) if by else None


def _factors(node: ast.expr) -> list[ast.expr]:
    product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
    return [*_factors(node.left), *_factors(node.right)] if product else [node]  # type: ignore[attr-defined]


def _kept(whole: ast.expr, by: list[ast.expr], numbers: dict[str, Place], ranks: int) -> tuple[Place, int] | None:
    """The micro-batch among the divisors, and the quotient."""
    values = [_value(one, numbers, ranks) for one in (whole, *by)]
    batches = [numbers[name] for one in by if (name := ast.unparse(one)) in numbers and wheel_names.meaning(last(name)) == "micro_batch"]
    if None in values or len(batches) != 1:
        return None
    product = math.prod(value for value in values[1:] if value is not None)
    return (batches[0], values[0] // product) if values[0] and values[0] % product == 0 else None


def _value(node: ast.expr, numbers: dict[str, Place], ranks: int) -> int | None:
    if isinstance(node, ast.Constant) and is_count(node.value):
        return int(node.value)
    name = ast.unparse(node)
    if any(word in last(name).lower() for word in _RANKS):
        return ranks
    return int(numbers[name].value) if name in numbers else None
