"""Fixtures of the worker's tests: tiny data sets, real children, and Ultralytics imported without touching the user's settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autofit_launcher.adapter.build import ladder_of
from autofit_launcher.common.orders import Orders
from autofit_launcher.common.report import TrialReport
from autofit_launcher.machine import devices
from autofit_launcher.trainers.suite import cpu_budget
from autofit_launcher.trainers.ultralytics import environment as ultralytics_env
from autofit_launcher.trainers.ultralytics.adapter import UltralyticsAdapter
from tests.helpers import yolo_recipe
from tests.helpers.places import ROOT, lay
from tests.helpers.shapes import ShapesData, make_shapes

MIB = 2**20


@pytest.fixture(scope="session")
def quiet_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a trial's child on the CPU."""
    folder = tmp_path_factory.mktemp("environment")
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, **ultralytics_env.prepare(folder), **devices.MALLOC, "PYTHONPATH": path}


@pytest.fixture(scope="session")
def yolo_exact(quiet_environment: dict[str, str]) -> Any:
    """The names of ``native``, imported once, and its trainers: Ultralytics reads its settings at import, and asks for the network."""
    with pytest.MonkeyPatch.context() as patch:
        for key, value in quiet_environment.items():
            if key.startswith("YOLO_") or key == "MPLCONFIGDIR":
                patch.setenv(key, value)
        from autofit_launcher.trainers.ultralytics.native import exact_settings, exact_trainer, layer_checkpointing, yolo
    modules = (yolo, exact_trainer, exact_settings)
    names = {name: value for module in modules for name, value in vars(module).items() if not name.startswith("__")}
    trainers = {f"Exact{base.__name__}": exact_trainer.exact(base) for base in exact_trainer.COVERED}
    return SimpleNamespace(**names, **trainers, checkpointing=layer_checkpointing)


@pytest.fixture
def exact(yolo_exact: Any) -> Iterator[Any]:
    """``yolo_exact`` for one test: its settings and patches are undone afterwards."""
    yield yolo_exact
    yolo_exact.configure(yolo_exact.ExactSettings())


@pytest.fixture(scope="session")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., ShapesData]:
    """Data sets by task, each made once; other arguments make another."""
    made: dict[str, ShapesData] = {}

    def get(task: str = "detect", **arguments: Any) -> ShapesData:
        key = json.dumps([task, arguments], sort_keys=True)
        if key not in made:
            made[key] = make_shapes(tmp_path_factory.mktemp(f"shapes-{task}") / "data", task, **arguments)
        return made[key]

    return get


@dataclass(frozen=True)
class Ran:
    """One trial's child, ended."""

    report: TrialReport
    status: int
    output: str


RunTrial = Callable[..., Ran]
FAULTY = str(Path(__file__).parent / "inside" / "faulty.py")


@pytest.fixture
def run_trial(tmp_path: Path, quiet_environment: dict[str, str]) -> RunTrial:
    """Runs the trial of a rung of 4 in a child as the launcher does; 8 and a step of 16 were asked. ``args``: on top of small defaults."""

    def run(
        data: Path,
        *,
        cap_mib: int = 3000,
        ask: dict[str, Any] | None = None,
        args: dict[str, Any] | None = None,
        fault: str = "",
        cwd: Path = ROOT,
        may_spill: bool = False,
    ) -> Ran:
        asked = {"model": "yolov8n.yaml", "image_size": 64, "micro_batch": 8, "accumulation": 2, **(ask or {})}
        native = {"epochs": 100, "plots": False, **(args or {})}
        adapter = UltralyticsAdapter(yolo_recipe.make(data, ask=asked, args=native))
        folder = tmp_path / "trial"
        (folder / "scratch").mkdir(parents=True)
        budget = replace(cpu_budget(), budget_bytes=cap_mib * MIB, headroom=0.0)
        rung = next((rung for rung in ladder_of(adapter).rungs if rung.micro_batch == 4), ladder_of(adapter).asked)
        plan = adapter.trial(rung, budget, folder=folder, cache=tmp_path / "cache")
        payload = dict(plan.payload)
        if fault:
            program, *words = payload["argv"]
            payload["argv"] = [program, FAULTY, fault, *words]
        orders = Orders(
            module=plan.module, folder=str(folder), device="cpu", cap_bytes=cap_mib * MIB, accumulation=rung.accumulation,
            may_spill=may_spill, payload=payload,
        )  # fmt: skip
        orders.write(folder / "orders.json")
        with (folder / "stdout.log").open("wb") as out, (folder / "stderr.log").open("wb") as err:
            child = subprocess.run(
                [sys.executable, "-m", "autofit_launcher.inside", str(folder / "orders.json")],
                env={**quiet_environment, **plan.env, "ALLOWED": str(folder)}, cwd=cwd, stdout=out, stderr=err, timeout=300, check=False,
            )  # fmt: skip
        output = (folder / "stdout.log").read_text() + (folder / "stderr.log").read_text()
        report = TrialReport.read(orders.report_path)
        assert report is not None, output
        return Ran(report=report, status=child.returncode, output=output)

    return run


def loaded(place: Path, settings: dict[str, Any]) -> dict[str, str]:
    """Variables by which a command has ``native`` loaded, copied to ``place`` as the launcher does; nothing of autofit is in its reach."""
    adapter = UltralyticsAdapter(yolo_recipe.make(place / "data.yaml", ask={"checkpointing": True}))
    command = adapter.command(ladder_of(adapter).asked, cpu_budget(), folder=place)
    lay(command.files)
    return {"PYTHONPATH": str(place / "native"), "YOLO_EXACT": json.dumps(settings)}


@pytest.fixture(scope="session")
def exact_run(tmp_path_factory: pytest.TempPathFactory, quiet_environment: dict[str, str], shapes: Callable[..., ShapesData]) -> Path:
    """A folder with ``native/``, copied as the launcher does, and ``run/``, what ``yolo`` trained with it for one epoch at 64 px."""
    folder = tmp_path_factory.mktemp("exact run")  # with a blank
    env = loaded(folder, {"micro_batch": 2, "checkpointing": True, "val_batch": 2})
    words = f"data={shapes(val=3).yaml} imgsz=64 batch=4 nbs=16 epochs=1 device=cpu plots=False".split()
    command = [str(Path(sys.executable).with_name("yolo")), "detect", "train", "model=yolov8n.yaml", *words, f"save_dir={folder / 'run'}"]
    ran = subprocess.run(command, cwd=folder, env={**quiet_environment, **env}, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder
