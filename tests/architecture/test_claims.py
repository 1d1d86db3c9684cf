"""What docstrings claim of the whole tree is so."""

from __future__ import annotations

import re
from pathlib import Path

from autofit_launcher.history import run_folder
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.machine import process
from tests.architecture import rooms
from tests.architecture.rooms import Tree
from tests.helpers.places import LAUNCHER, ROOT

HOUSE = Tree(LAUNCHER)


def test_on_the_launchers_side_only_process_starts_signals_or_ends_processes() -> None:
    starters = rooms.starts_processes(HOUSE)
    assert {module for module in starters if rooms.outside(module)} - {"autofit_launcher.trainers.suite", "autofit_launcher.api"} == {
        process.__name__
    }
    assert starters - {module for module in starters if rooms.outside(module)} == {
        "autofit_launcher.inside.guardian",
        "autofit_launcher.inside.plainly",
        "autofit_launcher.inside.same.run",
        "autofit_launcher.inside.trial",
        "autofit_launcher.inside.loader_look",
    }


def test_the_list_of_what_runs_in_a_trainers_process_is_whole() -> None:
    package = HOUSE.paths["autofit_launcher.inside"]
    listed = package.read_text(encoding="utf-8")
    there = {path.stem for path in package.parent.glob("*.py")} - {"__init__", "__main__"}
    assert [name for name in sorted(there) if not re.search(rf"(^|  ){name}  ", listed, flags=re.MULTILINE)] == []


def test_the_run_folders_docstring_lists_its_files(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "demo")
    names = {
        str(getattr(folder, name).relative_to(folder.path))
        for name, value in vars(RunFolder).items()
        if isinstance(value, run_folder._Named)
    }
    assert names
    assert run_folder.__doc__ is not None
    assert [name for name in sorted(names) if name not in run_folder.__doc__] == []
    assert folder.trial(7).name == "007" and "trials/NNN/" in run_folder.__doc__


def test_no_docstring_sends_its_reader_to_a_file_that_is_not_here() -> None:
    for module, path in HOUSE.paths.items():
        text = path.read_text(encoding="utf-8")
        assert "facts/" not in text, module
        for named in re.findall(r"(?<![\w/.])(?:tests|docs)/[\w./-]*\w", text):
            assert list(ROOT.glob(f"{named}*")), f"{module} names {named}"  # docs/decisions/004 stands for the file that begins so
