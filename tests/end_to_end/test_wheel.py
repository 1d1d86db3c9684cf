"""What `pip install .` gives: a wheel that works from any folder, with conf/, recipes/ and the demo's maker inside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from autofit_launcher import __version__
from autofit_launcher.history import digests
from tests.helpers.places import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    argv = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = out.glob("*.whl")
    return found


def test_the_wheel_carries_configuration_recipes_and_the_demos_maker(wheel: Path) -> None:
    assert wheel.name.startswith(f"{digests.DISTRIBUTION}-")
    names = set(zipfile.ZipFile(wheel).namelist())
    in_checkout = [path.relative_to(ROOT) for folder in ("conf", "recipes") for path in (ROOT / folder).rglob("*.yaml")]
    assert {f"autofit_launcher/{path}" for path in in_checkout} <= names
    assert "autofit_launcher/examples/digits/make_digits.py" in names
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"autofit_launcher"}
    assert "autofit_launcher/py.typed" in names
    told = zipfile.ZipFile(wheel).read(f"{digests.DISTRIBUTION}-{__version__}.dist-info/METADATA").decode()
    assert "# autofit" in told and "](docs/" not in told, "an index can't follow a link into the repository"
    assert not [name for name in names if "/tests/" in name]


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel and what it asks for, and nothing else; returns its bin/."""
    place = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(place, with_pip=False)
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    installer = (
        [uv, "pip", "install", "--quiet", "--python", str(place)]
        if uv
        else [sys.executable, "-m", "pip", "--python", str(place), "install", "-q"]
    )
    subprocess.run([*installer, "--constraint", str(ROOT / "constraints.txt"), str(wheel)], check=True)
    return place / "bin"


def run(clean: Path, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX")}
    env["PATH"] = str(clean)
    return subprocess.run([str(clean / "autofit"), *words], cwd=cwd, env=env, capture_output=True, text=True, check=False)


def test_it_runs_from_any_folder_in_a_clean_environment(clean: Path, tmp_path: Path) -> None:
    assert "yolo_demo" in run(clean, tmp_path, "recipes").stdout
    composed = run(clean, tmp_path, "train", "recipe=yolo_demo", "--cfg", "job", "--resolve")
    assert composed.returncode == 0, composed.stderr
    assert str(clean.parent / "lib") in composed.stdout, "the demo's maker is the wheel's own"


def test_without_the_trainer_it_names_the_extra_to_install(clean: Path, tmp_path: Path) -> None:
    done = run(clean, tmp_path, "train", "recipe=yolov8x_a100", "data=data.yaml", "device=cpu")
    assert done.returncode == 1
    assert "pip install ultralytics torch torchvision" in done.stderr and "Traceback" not in done.stderr
