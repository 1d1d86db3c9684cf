"""A person's own ``launcher`` on PYTHONPATH is their script's, and breaks nothing of autofit's."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
    env = {**os.environ, "PYTHONPATH": ".", **{f"XDG_{name}_HOME": str(place / name) for name in ("STATE", "CACHE", "DATA")}}
    return subprocess.run([sys.executable, *CONSOLE_SCRIPT, *words], cwd=place, env=env, capture_output=True, text=True, check=False)


def test_the_command_is_autofits_own(place: Path) -> None:
    done = autofit(place, "recipes")
    assert done.returncode == 0 and "yolo_demo" in done.stdout + done.stderr, done.stderr


def test_what_it_starts_of_itself_is_its_own_too(place: Path) -> None:
    argv = process.python_module("launcher.worker")
    done = subprocess.run(argv, cwd=place, env={**os.environ, "PYTHONPATH": "."}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.split()[:3]) == (2, ["usage:", "python", "-m"])


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
