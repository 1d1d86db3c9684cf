"""A trainer's package imports the API of adapters and nothing else of ours, and the example package can be written with it."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.places import ROOT

EXAMPLE = ROOT / "examples/sentence_transformers_trainer"
API, IN_THE_TRAINERS_PROCESS, SUITE = "autofit_launcher.adapter", "autofit_launcher.inside.api", "autofit_launcher.trainers.suite"


def test_the_example_package_imports_the_api_alone() -> None:
    assert [fault for path in sorted(EXAMPLE.rglob("*.py")) for fault in faults_of(path)] == []


@pytest.mark.parametrize("name", [API, IN_THE_TRAINERS_PROCESS])
def test_the_api_lists_what_it_has(name: str) -> None:
    api = importlib.import_module(name)
    assert [one for one in api.__all__ if not hasattr(api, one)] == []
    public = {one for one, value in vars(api).items() if not one.startswith("_") and not inspect.ismodule(value)}
    assert public <= set(api.__all__)


def faults_of(path: Path) -> list[str]:
    """Imports of ours in one file of a trainer's package that its side may not make."""
    allowed = (IN_THE_TRAINERS_PROCESS,) if path.parent.name == "inside" else (API, SUITE) if path.parent.name == "tests" else (API,)
    return [f"{path.name} imports {module}.{name}" for module, name in _imports_of_ours(path) if not _is_api(module, name, allowed)]


def _is_api(module: str, name: str, allowed: tuple[str, ...]) -> bool:
    return module in allowed and (module == SUITE or name in importlib.import_module(module).__all__)


def _imports_of_ours(path: Path) -> Iterator[tuple[str, str]]:
    """(module, name) of each import of our package; the name is empty where a module is imported as such."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "autofit_launcher":
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == "autofit_launcher")
