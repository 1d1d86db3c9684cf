"""The walls between the rooms, read from the import statements; and that every wall is noticed where it is broken."""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture import rooms
from tests.architecture.rooms import Tree
from tests.helpers.places import LAUNCHER, ROOT

Rule = Callable[[Tree], list[str]]
RULES: tuple[Rule, ...] = (
    rooms.reaches_into_an_inside, rooms.native_knows_autofit, rooms.common_leans_on_others, rooms.launcher_loads_a_trainer,
    rooms.a_program_needs_a_package, rooms.a_program_finds_ours, rooms.circles, rooms.names_nothing,
    rooms.reaches_for_private_names,
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


SOUND = {
    "cli.py": "import json\nfrom autofit_launcher.trainers.mine import adapter\n",
    "process.py": "import subprocess\n",
    "common/__init__.py": "",
    "common/files.py": "import json\ndef _beside():\n    pass\n",
    "common/report.py": "from . import files\n",
    "inside/__init__.py": "",
    "inside/start.py": "from . import recorder\n",
    "inside/recorder.py": "from ..common.report import x\ndef later():\n    import torch\n",
    "trainers/__init__.py": "",
    "trainers/mine/__init__.py": "",
    "trainers/mine/adapter.py": (
        "from autofit_launcher.trainers.mine.native import run\n"
        "PLAN = 'autofit_launcher.trainers.mine.inside.trial'\n"
        "def late(task):\n    return f'autofit_launcher.trainers.mine.native.hf_{task}'\n"
    ),
    "trainers/mine/inside/__init__.py": "",
    "trainers/mine/inside/trial.py": "import torch\nfrom autofit_launcher.inside import recorder\nfrom . import imports\n",
    "trainers/mine/inside/imports.py": "import torch\n",
    "trainers/mine/inside/hooks.py": "from ....inside import recorder\n",
    "trainers/mine/native/__init__.py": "",
    "trainers/mine/native/run.py": "import json\ndef main():\n    import torch\n",
    "trainers/mine/native/hf_text.py": "from . import run\nfrom .run import main\n",
}


def built(folder: Path, **changed: str) -> Tree:
    """A small house; ``changed``: path with ``__`` for the slash -> lines added to that file."""
    files = dict(SOUND)
    for name, text in changed.items():
        path = f"{name.replace('__', '/')}.py"
        files[path] = files.get(path, "") + text + "\n"
    for path, text in files.items():
        (folder / rooms.PACKAGE / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / rooms.PACKAGE / path).write_text(text)
    return Tree(folder)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_sound_house_has_no_faults(rule: Rule, tmp_path: Path) -> None:
    assert rule(built(tmp_path)) == []


@pytest.mark.parametrize(("rule", "where", "text", "said"), [
    (rooms.reaches_into_an_inside, "trainers__mine__adapter", "from .inside import trial", "adapter imports autofit_launcher."),
    (rooms.reaches_into_an_inside, "trainers__other__inside__trial", "from ...mine.inside import trial", "other.inside"),
    (rooms.native_knows_autofit, "trainers__mine__native__run", "from autofit_launcher.common import files", "common.files"),
    (rooms.common_leans_on_others, "common__files", "from autofit_launcher import process", "autofit_launcher.process"),
    (rooms.common_leans_on_others, "common__files", "def f():\n    import psutil", "psutil"),
    (rooms.launcher_loads_a_trainer, "cli", "def f():\n    import torch.cuda", "cli imports torch.cuda"),
    (rooms.launcher_loads_a_trainer, "trainers__mine__native__run", "import torch", "native.run, which loads torch"),
    (rooms.reaches_into_an_inside, "process", "def f():\n    from .inside import recorder", "process imports autofit_launcher."),
    (rooms.a_program_needs_a_package, "common__report", "import psutil", "inside.recorder loads psutil"),
    (rooms.a_program_needs_a_package, "trainers__mine__inside__hooks", "import pydantic", "hooks loads pydantic"),
    (rooms.a_program_finds_ours, "inside__start", "from autofit_launcher.common import files", "files by its public name"),
    (rooms.a_program_finds_ours, "common__report", "def f():\n    import resource", "report imports resource in a function"),
    (rooms.circles, "common__files", "from autofit_launcher.common import report", "autofit_launcher.common.files"),
    (rooms.names_nothing, "cli", "ARGV = ('-m', 'autofit_launcher.adapters.mine')", "cli names autofit_launcher.adapters.mine"),
    (rooms.names_nothing, "cli", '"""See ``autofit_launcher.common.report.Gone``."""', "report.Gone"),
    (rooms.names_nothing, "cli", "def f(task):\n    return f'autofit_launcher.trainers.mine.native.xy_{task}'", "native.xy_"),
    (rooms.reaches_for_private_names, "process", "from autofit_launcher.common.files import _beside", "process reaches for _beside"),
])  # fmt: skip
def test_a_broken_wall_is_noticed(rule: Rule, where: str, text: str, said: str, tmp_path: Path) -> None:
    faults = rule(built(tmp_path, **{where: text}))
    assert faults and any(said in fault for fault in faults), faults


def test_what_only_a_type_checker_imports_makes_no_circle(tmp_path: Path) -> None:
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from autofit_launcher.common import report"
    assert rooms.circles(built(tmp_path, common__files=text)) == []
