"""Finds the Python that has Ultralytics, and makes an environment in which that writes only into a given folder and uses no network.

Left to itself Ultralytics writes settings and a font beside the user's own, asks for updates and installs packages; a settings folder that
is new drops the user's data and weights folders, so they are copied.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from autofit_launcher.common import files, interpreter
from autofit_launcher.machine import process
from autofit_launcher.machine.packages import package_folder

BASE = {"ultralytics": (
    "matplotlib.pyplot", "scipy.optimize", "torchvision", "torch._dynamo", "torch._inductor", "ultralytics.engine.trainer",
    "ultralytics.models.yolo", "ultralytics.utils.plotting", "autofit_launcher.trainers.ultralytics.inside.imports",
)}  # fmt: skip
"""Modules that trial and full run import before a CPU budget is taken (``Command.base``): the same in both, so the base is the same."""


def installed(name: str = "ultralytics") -> Path | None:
    """The folder of a package there; None where it isn't installed."""
    return package_folder(name, python=interpreter.persons())


def asked(module: str, *words: str, timeout_s: float | None = None) -> tuple[int, str]:
    """Runs a module in the Python there, which writes only into a folder that goes with it: (exit status, output)."""
    with tempfile.TemporaryDirectory(prefix="autofit-look-") as place:
        env = {**prepare(Path(place)), "TMPDIR": place}
        return process.output_of(process.python_module(module, *words, python=interpreter.persons()), env=env, timeout_s=timeout_s)


def prepare(folder: Path) -> dict[str, str]:
    """Makes ``folder`` (may be shared by the trials of a run) and returns what to add to a child's environment.

    The user's own Ultralytics settings (data sets and weights folders) are copied, with ``sync`` off; theirs are not touched.
    """
    configs = (folder / "config" / "Ultralytics", folder / "config")  # Ultralytics adds the last part by itself, from 8.3.200 (about) on
    for made in (*configs, folder / "matplotlib"):
        made.mkdir(parents=True, exist_ok=True)
    settings = files.read_json(user_config_folder() / "settings.json")
    for config in configs:
        if settings:  # else Ultralytics writes its defaults there
            (config / "settings.json").write_text(json.dumps({**settings, "sync": False}, indent=2), encoding="utf-8")
        _copy_font(config / "Arial.ttf")
    return {
        "YOLO_CONFIG_DIR": str(folder / "config"),
        "YOLO_OFFLINE": "true",  # the one word that every version takes
        "YOLO_AUTOINSTALL": "false",
        "MPLCONFIGDIR": str(folder / "matplotlib"),
        "MPLBACKEND": "Agg",
    }


def user_config_folder() -> Path:
    """Finds the folder of the user's settings, as Ultralytics' ``get_user_config_dir`` does on Linux; nothing is made here."""
    if chosen := os.environ.get("YOLO_CONFIG_DIR"):
        return Path(chosen).expanduser() / "Ultralytics"
    return Path(os.environ.get("XDG_CONFIG_HOME", Path.home() / ".config")) / "Ultralytics"  # an empty one means here, to Ultralytics too


def _copy_font(wanted: Path) -> None:
    """``check_font`` asks GitHub for Arial.ttf unless a file of that name is there; YOLO_OFFLINE does not stop it."""
    spare = (installed("matplotlib") or Path()) / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf"
    found = next((one for one in (user_config_folder() / "Arial.ttf", spare) if one.is_file()), None)
    if not wanted.exists():
        shutil.copyfile(found, wanted) if found is not None else wanted.touch()
