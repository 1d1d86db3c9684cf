"""The measures of the house: short functions with few parameters, flat bodies, a small root, no package that outgrows the others."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.architecture.rooms import PACKAGE, Tree
from tests.helpers.places import LAUNCHER, ROOT

LONGEST = 80
MOST_PARAMETERS = 5
MANY_PARAMETERS = {"machine.devices.find", "machine.process.start", "trial.judge.judge"}
"""Each is an interface of the whole house, and most of its parameters are optional."""
DEEPEST = 3
DEEP = {"machine.process._pump", "common.procfs.with_variable", "inside.caches._linked"}
FLOORS = 8
"""Of packages, as import-linter's contract has them; ``__main__`` and ``api`` stand on top."""
ROOT_FILES = {"__init__.py", "__main__.py", "api.py", "errors.py", "paths.py"}
MOST_LINES = 27_439
"""Only goes down: what needs lines names what goes for it (docs/decisions/012)."""
LARGEST_SHARE = 0.2
"""Of the lines outside ``inside`` and ``trainers``."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match, ast.AsyncFor, ast.AsyncWith)
INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@pytest.fixture(scope="module")
def functions() -> list[tuple[str, Function]]:
    """Every function with its dotted name, without the package's."""
    found = []
    for module, tree in Tree(LAUNCHER).parsed.items():
        nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        found += [(f"{module.removeprefix(PACKAGE + '.')}.{node.name}", node) for node in nodes]
    return found


def parameters(function: Function) -> int:
    given = function.args
    return len([one for one in (*given.posonlyargs, *given.args, *given.kwonlyargs) if one.arg not in ("self", "cls")])


def depth(node: ast.AST) -> int:
    """Blocks within blocks; an ``elif`` is no deeper than its ``if``."""
    below = [child for child in ast.iter_child_nodes(node) if not isinstance(child, INNER)]
    chained = node.orelse if isinstance(node, ast.If) else []
    return max(
        (depth(child) + (isinstance(child, BLOCKS) and not (isinstance(child, ast.If) and child in chained)) for child in below), default=0
    )


def sources() -> Iterator[tuple[str, int]]:
    """(package of the house, lines) of every module in one."""
    for path in (LAUNCHER / PACKAGE).rglob("*.py"):
        inside = path.relative_to(LAUNCHER / PACKAGE)
        if len(inside.parts) > 1:
            yield inside.parts[0], len(path.read_text(encoding="utf-8").splitlines())


def test_functions_are_short(functions: list[tuple[str, Function]]) -> None:
    lines = sorted((node.end_lineno or 0) - node.lineno + 1 for _, node in functions)
    assert lines[-1] <= LONGEST and lines[len(lines) * 9 // 10] <= 17


def test_functions_have_few_parameters_but_for_those_named(functions: list[tuple[str, Function]]) -> None:
    assert {name for name, node in functions if parameters(node) > MOST_PARAMETERS} == MANY_PARAMETERS


def test_functions_are_flat_but_for_those_named(functions: list[tuple[str, Function]]) -> None:
    assert {name for name, node in functions if depth(node) > DEEPEST} == DEEP


def test_the_root_holds_no_more_than_it_must() -> None:
    assert {path.name for path in (LAUNCHER / PACKAGE).glob("*.py")} == ROOT_FILES


def test_the_house_has_few_floors() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    assert len(layers) - 1 <= FLOORS


def test_the_house_and_its_packages_stay_within_bounds() -> None:
    lines: Counter[str] = Counter()
    for package, count in sources():
        lines[package] += count
    assert lines.total() <= MOST_LINES
    del lines["trainers"], lines["inside"]
    package, most = lines.most_common(1)[0]
    assert most <= LARGEST_SHARE * lines.total(), package
