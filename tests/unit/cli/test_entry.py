"""A person's own ``launcher``, or ``yaml``, on PYTHONPATH is their script's, and breaks nothing of autofit's."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import autofit_launcher
from launcher.machine import process

CONSOLE_SCRIPT = ("-P", "-c", "import sys; from autofit_launcher import main; sys.exit(main())")
"""As an installer writes it: the first folder on its path is that of the programs."""
TRAINS = """
import argparse, torch
import launcher
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
args = parser.parse_args()
model = torch.nn.Linear(64, launcher.SETTINGS["out"])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (batch,) in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 64)), batch_size=args.batch_size):
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("trained with", launcher.__file__)
"""


@pytest.fixture(params=["module", "package"])
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with a script and a ``launcher`` of its own."""
    own = tmp_path / ("launcher.py" if request.param == "module" else "launcher/__init__.py")
    own.parent.mkdir(exist_ok=True)
    own.write_text("SETTINGS = {'out': 64}\n", encoding="utf-8")
    (tmp_path / "train.py").write_text(TRAINS, encoding="utf-8")
    return tmp_path


def autofit(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": ".", **{f"XDG_{name}_HOME": str(place / name) for name in ("STATE", "CACHE")}}
    return subprocess.run([sys.executable, *CONSOLE_SCRIPT, *words], cwd=place, env=env, capture_output=True, text=True, check=False)


def test_the_command_is_autofits_own(place: Path) -> None:
    done = autofit(place, "recipes")
    assert done.returncode == 0 and "yolo_demo" in done.stdout + done.stderr, done.stderr


def test_what_it_starts_of_itself_is_its_own_too(place: Path) -> None:
    argv = process.python_module("launcher.inside")
    done = subprocess.run(argv, cwd=place, env={**os.environ, "PYTHONPATH": "."}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.split()[:3]) == (2, ["usage:", "python", "-m"])


IMPORTS = """
import importlib, pkgutil, sys
import autofit_launcher
sys.meta_path.insert(0, autofit_launcher.OwnFirst())
import launcher
for package in ("cli", "engine", "run", "trial", "adapter", "ladder", "history", "machine", "config", "shared"):
    there = importlib.import_module(f"launcher.{package}")
    for module in pkgutil.walk_packages(there.__path__, f"{there.__name__}."):
        importlib.import_module(module.name)
for name in ("ultralytics", "script"):
    importlib.import_module(f"launcher.trainers.{name}.adapter")
import rich.markdown, rich.syntax, rich.traceback, pynvml, hydra.core.plugins
tops = {name.partition(".")[0] for name, module in sys.modules.items() if getattr(module, "__file__", None)}
print(*sorted(name for name in tops - sys.stdlib_module_names if "distutils" not in name and not name.startswith("_sysconfigdata")))
"""


def test_the_installed_modules_that_the_launcher_imports_are_named() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) - {"launcher", "autofit_launcher"} <= autofit_launcher.DEPENDENCIES


@pytest.fixture
def shadowed(tmp_path: Path) -> Path:
    """A folder with a module of the name of each that autofit imports, and torch does without; ``hydra`` is a package."""
    for name in (*autofit_launcher.DEPENDENCIES - {"hydra", "typing_extensions"}, "statistics"):
        (tmp_path / f"{name}.py").write_text("SETTINGS = {'out': 64}\n", encoding="utf-8")
    (tmp_path / "hydra").mkdir()
    (tmp_path / "hydra" / "__init__.py").touch()
    return tmp_path


STARTS = {"script": CONSOLE_SCRIPT, "-m": ("-m", "launcher"), "detached": ("-P", str(process.ENTRY), "launcher")}


@pytest.mark.parametrize("start", STARTS)
def test_modules_named_like_autofits_dependencies_are_not_autofits(shadowed: Path, start: str) -> None:
    env = {**os.environ, "PYTHONPATH": "."}
    done = subprocess.run([sys.executable, *STARTS[start], "recipes"], cwd=shadowed, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "yolo_demo" in done.stdout + done.stderr, done.stderr


@pytest.fixture
def elsewhere(tmp_path: Path) -> str:
    """The Python of another environment, which has torch and nothing of autofit's."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    (packages,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    origin = importlib.util.find_spec("torch").origin  # type: ignore[union-attr]
    (packages / "torch.pth").write_text(f"{Path(str(origin)).parents[1]}\n", encoding="utf-8")
    return str(tmp_path / "env" / "bin" / "python")


@pytest.mark.slow
@pytest.mark.parametrize("launched", ["python", "torchrun", "elsewhere"])
def test_a_script_is_tried_and_trains_with_its_own(place: Path, elsewhere: str, launched: str) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "1"]
    start = {"python": [sys.executable], "torchrun": torchrun, "elsewhere": [elsewhere]}[launched]
    done = autofit(place, "run", "device=cpu", "device.memory=700MiB", "--json", "--", *start, "train.py", "--batch-size", "8")
    assert done.returncode == 0 and json.loads(done.stdout.splitlines()[-1])["status"] == "done", done.stderr
    assert "trained with" in done.stdout + done.stderr and f"{place / 'launcher'}" in done.stdout + done.stderr


def test_ctrl_c_while_autofit_is_being_loaded_is_no_traceback() -> None:
    pressed = """
import sys, autofit_launcher
class Pressed:
    def find_spec(self, name, path=None, target=None):
        if name == "launcher.cli.main":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Pressed())
autofit_launcher.main()
"""
    done = subprocess.run(
        (sys.executable, "-c", pressed),
        cwd=Path(autofit_launcher.__file__).parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "autofit: interrupted by SIGINT\n")
