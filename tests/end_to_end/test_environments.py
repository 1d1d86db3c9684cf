"""autofit in an environment of its own, without PyTorch and without any trainer: the person's Python is found, named, and trains."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib import util
from pathlib import Path

import pytest

from tests.helpers.command_line import answer
from tests.helpers.places import LAUNCHER, SCRIPTS

NEEDED = (
    "hydra", "omegaconf", "antlr4", "packaging", "pydantic", "pydantic_core", "annotated_types", "typing_inspection", "yaml", "_yaml",
    "psutil", "rich", "pygments", "markdown_it", "mdurl", "jinja2", "markupsafe", "pynvml.py", "typing_extensions.py",
    "autofit_launcher-*.dist-info",
)  # fmt: skip
"""Installed modules that the launcher's own process imports."""
TRAIN = "import torch\nprint(torch)\n"
YOLO = "from ultralytics import YOLO\nYOLO('yolo11n.yaml').train(data='data.yaml', epochs=1)\n"


def environment(place: Path, *paths: Path) -> Path:
    """A virtual environment that finds these folders and nothing else; returns it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "found.pth").write_text("".join(f"{path}\n" for path in paths))
    return place


@pytest.fixture(scope="module")
def envs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``tool``: autofit and what it imports; ``person``: without autofit, with programs of their names; links to both."""
    place = tmp_path_factory.mktemp("envs")
    (needed := place / "needed").mkdir()
    for found in (found for name in NEEDED for found in Path(sysconfig.get_path("purelib")).glob(name)):
        (needed / found.name).symlink_to(found)
    tool, person = environment(place / "tool", needed, LAUNCHER), environment(place / "person")
    programs = {tool / "bin/autofit": f"#!{tool}/bin/python\nfrom autofit_launcher.__main__ import main\nmain()\n"}
    programs |= {person / f"bin/{name}": f"#!{person}/bin/python\n" for name in ("torchrun", "yolo")}
    for path, text in programs.items():
        path.write_text(text)
        path.chmod(0o755)
    (place / "local").mkdir()
    links = {"local/autofit": "tool/bin/autofit", "local/yolo": "person/bin/yolo", "tool-link": "tool", "person-link": "person"}
    for link, to in links.items():
        (place / link).symlink_to(place / to)
    return place


COMMAND = ("run", "device=cpu", "--", "python", "train.py")
CASES = {
    "uvx in an active venv": ("tool/bin person/bin", "VIRTUAL_ENV=person", COMMAND, "person"),
    "uvx, and a venv that is not on PATH": ("tool/bin", "VIRTUAL_ENV=person", COMMAND, "person"),
    "uv, poetry: an active venv": ("person/bin", "VIRTUAL_ENV=person", COMMAND, "person"),
    "conda, pixi": ("tool/bin person/bin", "CONDA_PREFIX=person", COMMAND, "person"),
    "pipx": ("local person/bin", "", COMMAND, "person"),
    "an environment behind a link": ("person-link/bin", "VIRTUAL_ENV=person-link", COMMAND, "person-link"),
    "bash -c": ("tool/bin person/bin", "", ("run", "device=cpu", "--", "bash", "-c", "python train.py"), "person"),
    "autofit's own behind a link": ("tool-link/bin person/bin", "", COMMAND, "person"),
    "python -m": ("tool/bin person/bin", "", ("run", "device=cpu", "--", "python", "-m", "train"), "person"),
    "torchrun": ("tool/bin person/bin", "", ("run", "device=cpu", "--", "torchrun", "--nproc_per_node", "1", "train.py"), "person"),
    "one Python, autofit's own": ("tool/bin", "", COMMAND, "tool"),
    "yolo of pipx": ("tool/bin local", "", ("run", "device=cpu", "--", "yolo", "train", "data=data.yaml"), "person"),
    "a script with Ultralytics": ("tool/bin person/bin", "", ("run", "device=cpu", "--", "python", "yolo.py"), "person"),
    "a recipe for transformers": ("tool/bin", "VIRTUAL_ENV=person", ("fit", "recipe=llm_sft_demo", "device=cpu"), "person"),
}


def launched(envs: Path, folder: Path, path: str, variables: str, words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX")}
    named = dict(word.split("=") for word in variables.split())
    env = {**kept, "PATH": os.pathsep.join(str(envs / one) for one in path.split()), **{key: str(envs / one) for key, one in named.items()}}
    argv = [str(envs / "tool/bin/autofit"), *(word.format(envs=envs) for word in words)]
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("case", CASES)
def test_the_persons_python_is_found_and_without_a_trainer_the_last_line_says_what_to_do(envs: Path, tmp_path: Path, case: str) -> None:
    path, variables, words, python = CASES[case]
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "yolo.py").write_text(YOLO)
    done = launched(envs, tmp_path, path, variables, words)
    last = (done.stdout + done.stderr).strip().splitlines()[-1]
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert f"{envs / python}/bin/python" in last and "-m pip install" in last, done.stderr


def test_a_python_that_is_too_old_to_be_watched_is_refused_by_its_version(envs: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "python").write_text("#!/bin/sh\necho 3.10\n")
    (tmp_path / "python").chmod(0o755)
    done = launched(envs, tmp_path, "tool/bin", "", ("run", "device=cpu", "--", str(tmp_path / "python"), "train.py"))
    assert done.returncode == 1 and "/python is Python 3.10, and autofit watches trainings of Python 3.11" in done.stderr


def test_what_trains_in_a_container_is_said_to_be_out_of_reach(envs: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    done = launched(envs, tmp_path, "person/bin", "", ("run", "--", "docker", "run", "image", "python", "train.py"))
    assert done.returncode == 1 and "which autofit can't look into. Start autofit in it" in done.stderr, done.stderr


@pytest.mark.slow
def test_a_script_trains_with_the_torch_of_the_person_and_the_plan_names_its_python(envs: Path, tmp_path: Path) -> None:
    origin = Path(str(util.find_spec("torch").origin)).parents[1]  # type: ignore[union-attr]
    trains = environment(envs / "trains", origin)
    shutil.copy(SCRIPTS / "by_hand.py", tmp_path / "train.py")
    words = ("run", "device=cpu", "device.memory=1GiB", "--json", "--", "python", "train.py")
    done = launched(envs, tmp_path, "tool/bin trains/bin", "", words)
    assert done.returncode == 0 and answer(done)["status"] == "done", done.stderr
    assert f"python  {trains}/bin/python" in done.stderr
