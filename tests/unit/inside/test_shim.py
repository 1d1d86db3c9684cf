"""What a program finds at its first line where something of autofit's was loaded before it: what plain Python gives it."""

from __future__ import annotations

import ast
import dataclasses
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.adapter import commands
from autofit_launcher.adapter.commands import Command
from autofit_launcher.common.orders import Orders, ProbeSettings, injected
from autofit_launcher.machine import process
from autofit_launcher.trainers.script import outside
from autofit_launcher.trainers.suite import cpu_budget
from autofit_launcher.trainers.ultralytics.environment import BASE
from tests.helpers.places import LAUNCHER, ROOT, lay

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a CPU budget is RLIMIT_DATA, which only Linux has")
OURS = {path.stem for path in (*ROOT.iterdir(), *LAUNCHER.iterdir()) if path.is_dir()} | {path.stem for path in LAUNCHER.rglob("*.py")}
NEEDED = {"pynvml", "psutil", "yaml", "pydantic", "rich", "hydra", "omegaconf", "numpy", "usercustomize"}
WATCHED = {"soundfile", "h5py", "cv2", "safetensors", "tokenizers", "torchaudio", "transformers", "lightning", "matplotlib"}
"""Libraries in which a trial hooks something."""
PYTHONS = {
    "threading", "importlib", "contextlib", "types", "warnings", "pkgutil", "collections", "functools", "keyword", "operator", "reprlib",
}  # fmt: skip
"""With a module of such a name plain Python breaks at ``-m``, or complains at its own end."""
NAMES = sorted(
    name
    for name in OURS | NEEDED | WATCHED | sys.stdlib_module_names
    if name.isidentifier() and not name.startswith(("__", "_autofit")) and name not in PYTHONS and name != "distutils"
)
"""Not distutils: setuptools takes that name over at Python's start, where it is installed and can be imported beside all these."""
LOOKS = """
import sys
began = sorted(sys.modules)
mine = []
for name in NAMES:
    try:
        mine += [name] if hasattr(__import__(name), "MINE") else []
    except ImportError:
        pass
path = [place for place in sys.path]
print({"path": path, "argv": sys.argv, "began": began, "mine": mine, "main": __name__, "customized": CUSTOMIZED})
"""
WAYS = {
    "a script": ["the_script.py", "--x"],
    "-m": ["-m", "the_script"],
    "a package": ["-m", "package.the_script", "a"],
    "a folder": ["package"],
}


def program(place: Path, names: Sequence[str] = ()) -> None:
    """A program that looks and imports the ``names``, as a script, in a package and as a folder."""
    looks = LOOKS.replace("NAMES", repr(list(names))).replace("CUSTOMIZED", "getattr(sys, 'customized', 0)")
    package = place / "package"
    package.mkdir(parents=True)
    for path in (place / "the_script.py", package / "the_script.py", package / "__main__.py", package / "__init__.py"):
        path.write_text(looks if path.stem != "__init__" else "")


def have_own(folder: Path, names: Sequence[str] = NAMES) -> None:
    for name in names:
        (folder / f"{name}.py").write_text("MINE = True\n")


def seen(argv: Sequence[str], place: Path, env: Mapping[str, str]) -> Any:
    env = {"PATH": os.environ["PATH"], "MALLOC_MMAP_THRESHOLD_": "65536", "PYTHONDONTWRITEBYTECODE": "1", **env}
    done = subprocess.run(argv, cwd=place, env=env, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return ast.literal_eval(done.stdout)


def loaded(how: str, words: Sequence[str], place: Path, scratch: Path, env: dict[str, str]) -> Any:
    """What the program sees with something of ours in its process."""
    command = [sys.executable, *words]
    if "accumulated" in how or "put right" in how:
        said = {outside.UPDATE: "times:0.25"} if "put right" in how else {outside.ACCUMULATE: "4"}
        variables, files = outside.placed(said, place=scratch, env=env)
        lay(files)
        env = {**env, **variables}
    if "tried" in how or "held" in how:
        orders = Orders(module="", folder=str(scratch), device="cpu", cap_bytes=2**30, accumulation=1, payload={})
        overlay = str(scratch / "overlay") if "tried" in how else ""
        settings = scratch / "probe.json"
        ProbeSettings(records=str(scratch), orders=dataclasses.asdict(orders), overlay=overlay, budget_only="held" in how).write(settings)
        env = {**env, **injected(settings, env)}
        found = seen(command, place, env)
        assert not Path(f"{settings}.failed").exists(), Path(f"{settings}.failed").read_text()
        return found
    return seen(command, place, env)


HOW = ("tried", "held", "tried and accumulated", "tried and put right")


@pytest.mark.parametrize("how", HOW)
def test_a_programs_own_modules_are_what_it_imports_whatever_their_names(
    how: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path / "place"
    program(place, NAMES)
    have_own(place)
    have_own(place / "package")
    for words in WAYS.values():
        plain, ours = seen([sys.executable, *words], place, {}), loaded(how, words, place, tmp_path_factory.mktemp("scratch"), {})
        assert set(ours.pop("began")) >= set(plain.pop("began"))
        assert {"autofit_launcher", "psutil", "statistics", "instrument", "accumulate", "sitecustomize"} <= set(plain["mine"])
        assert set(plain["mine"]) - set(ours["mine"]) == set(), "the program finds ours or the library's"
        assert ours == plain


@pytest.mark.parametrize("how", HOW)
def test_only_private_names_and_the_standard_library_are_loaded_before_a_program(how: str, tmp_path: Path) -> None:
    place = tmp_path / "place"
    program(place)
    plain, ours = seen([sys.executable, "the_script.py"], place, {}), loaded(how, ["the_script.py"], place, tmp_path, {})
    more = {name.partition(".")[0] for name in set(ours["began"]) - set(plain["began"])}
    assert {name for name in more if not name.startswith("_autofit")} <= sys.stdlib_module_names and "sitecustomize" not in more
    assert ours["path"] == plain["path"] and not plain["mine"]


@pytest.mark.parametrize("how", ["held", "tried and accumulated"])
def test_what_stands_on_pythonpath_is_the_programs_and_not_ours(how: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    theirs, place = (tmp_path_factory.mktemp(name) for name in ("theirs", "place"))
    names = ("statistics", "dis", "inspect", "psutil", "instrument", "trace")
    program(place, names)
    have_own(theirs, names)
    (theirs / "sitecustomize.py").write_text("import sys\nsys.customized = 1\n")
    env = {"PYTHONPATH": str(theirs)}
    plain, ours = seen([sys.executable, "the_script.py"], place, env), loaded(how, ["the_script.py"], place, tmp_path, env)
    assert {key: value for key, value in ours.items() if key != "began"} == {key: value for key, value in plain.items() if key != "began"}
    assert plain["customized"] == 1 and "inspect" in plain["mine"]


@pytest.mark.slow
def test_a_run_of_ultralytics_under_a_budget_ends_as_clean_as_the_plain_command(tmp_path: Path) -> None:
    """nanobind's list of what leaked (Triton's bindings) was at the end of each such run: what is frozen isn't cleared."""
    env = {**os.environ, "YOLO_CONFIG_DIR": str(tmp_path), "YOLO_OFFLINE": "true"}
    held = commands.under_budget(Command(argv=("yolo", "cfg"), base=BASE), cpu_budget(), settings=tmp_path / "budget.json")
    said = []
    command = [process.program("yolo"), "cfg"]
    for told in (env, {**env, **held.env}):
        subprocess.run(command, cwd=tmp_path, env=told, capture_output=True, check=True)  # the first one writes its settings
        done = subprocess.run(command, cwd=tmp_path, env=told, capture_output=True, text=True, check=True)
        said.append((done.stdout, done.stderr))
    assert said[1] == said[0] and "nanobind" not in said[1][0]
