"""The walls between the rooms, read from the import statements."""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Callable

import pytest

from tests.architecture import rooms
from tests.architecture.rooms import Tree
from tests.helpers.places import LAUNCHER, ROOT

Rule = Callable[[Tree], list[str]]
RULES: tuple[Rule, ...] = (
    rooms.native_knows_autofit, rooms.launcher_loads_a_trainer, rooms.a_program_needs_a_package, rooms.a_program_finds_ours,
    rooms.circles, rooms.reaches_for_private_names,
)  # fmt: skip


@pytest.fixture(scope="module")
def house() -> Tree:
    return Tree(LAUNCHER)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_its_walls(rule: Rule, house: Tree) -> None:
    assert rule(house) == []


def test_what_is_loaded_into_a_program_is_found_at_any_depth(house: Tree) -> None:
    assert "autofit_launcher.inside.budget" in rooms.all_loaded(house, rooms.in_a_program(house))


def test_no_test_module_imports_another() -> None:
    """What two of them need is in ``tests/helpers``."""
    tests = re.compile(r"^\s*(?:from|import) (?:tests|\.)[\w.]*\btest_\w+", re.MULTILINE)
    assert [path.name for path in (ROOT / "tests").rglob("*.py") if tests.search(path.read_text(encoding="utf-8"))] == []


def test_every_entry_point_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["scripts"], *project["entry-points"].values()]
    for target in (target for group in groups for target in group.values()):
        module, _, name = target.partition(":")
        assert hasattr(importlib.import_module(module), name), target


def test_on_the_launchers_side_only_process_starts_signals_or_ends_processes(house: Tree) -> None:
    starters = rooms.starts_processes(house)
    assert {module for module in starters if rooms.outside(module)} - {"autofit_launcher.trainers.suite", "autofit_launcher.api"} == {
        "autofit_launcher.machine.process"
    }
    assert starters - {module for module in starters if rooms.outside(module)} == {
        "autofit_launcher.inside.forks",
        "autofit_launcher.inside.guardian",
        "autofit_launcher.inside.lifeline",
        "autofit_launcher.inside.plainly",
        "autofit_launcher.inside.same.run",
        "autofit_launcher.inside.trial",
        "autofit_launcher.inside.loader_look",
    }
