"""Makes an environment in which Ultralytics writes only into a given folder and uses no network. Standard library only.

The launcher calls ``prepare`` before it starts a trial. Left to itself Ultralytics writes settings and a font beside the user's own,
asks for updates and installs packages; a settings folder that is new drops the user's data and weights folders, so they are copied.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

IMPORTS = ("launcher.trainers.ultralytics.inside.imports",)
"""What trial and full run import before a CPU budget is taken (``budgeted --imports``): the same in both, so the base is the same."""


def prepare(folder: Path) -> dict[str, str]:
    """Makes ``folder`` (may be shared by the trials of a run) and returns what to add to a child's environment.

    The user's own Ultralytics settings (data sets and weights folders) are copied, with ``sync`` off; theirs are not touched.
    """
    configs = (folder / "config" / "Ultralytics", folder / "config")  # Ultralytics adds the last part by itself, from 8.3.200 (about) on
    for made in (*configs, folder / "matplotlib", folder / "inductor"):
        made.mkdir(parents=True, exist_ok=True)
    for config in configs:
        _copy_settings(config)
        _copy_font(config)
    return {
        "YOLO_CONFIG_DIR": str(folder / "config"),
        "YOLO_OFFLINE": "true",  # the one word that every version takes
        "YOLO_AUTOINSTALL": "false",
        "MPLCONFIGDIR": str(folder / "matplotlib"),
        "MPLBACKEND": "Agg",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
    }


def user_config_folder() -> Path:
    """Where Ultralytics keeps the user's settings, as its ``get_user_config_dir`` finds it; nothing is made here."""
    wanted = _wanted_config_folder()
    above = next((place for place in (wanted, *wanted.parents) if place.exists()), wanted)
    if above == wanted or (above.is_dir() and os.access(above, os.W_OK)) or not hasattr(os, "getuid"):
        return wanted
    spare = Path(tempfile.gettempdir()) / f"Ultralytics-{os.getuid()}"  # its way out where the home can't be written
    return spare if _private(spare) else wanted


def _wanted_config_folder() -> Path:
    if chosen := os.environ.get("YOLO_CONFIG_DIR"):
        return Path(chosen).expanduser() / "Ultralytics"
    if sys.platform == "win32":
        return Path.home() / "AppData" / "Roaming" / "Ultralytics"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "Ultralytics"
    return Path(os.environ.get("XDG_CONFIG_HOME", Path.home() / ".config")) / "Ultralytics"  # an empty one means here, to Ultralytics too


def _private(folder: Path) -> bool:
    """Whether Ultralytics would trust a folder in the shared temporary one: a real folder, ours, open to nobody else."""
    try:
        info = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and (info.st_uid, info.st_mode & 0o777) == (os.getuid(), 0o700)


def _copy_settings(config: Path) -> None:
    try:
        settings = json.loads((user_config_folder() / "settings.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # none yet: Ultralytics writes its defaults into our folder
    settings["sync"] = False
    (config / "settings.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")


def _copy_font(config: Path) -> None:
    """``check_font`` asks GitHub for Arial.ttf unless a file of that name is there; YOLO_OFFLINE does not stop it."""
    wanted = config / "Arial.ttf"
    if wanted.exists():
        return
    matplotlib = importlib.util.find_spec("matplotlib")
    candidates = [user_config_folder() / "Arial.ttf"]
    if matplotlib is not None and matplotlib.origin is not None:
        candidates.append(Path(matplotlib.origin).parent / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf")
    for candidate in candidates:
        if candidate.is_file():
            shutil.copyfile(candidate, wanted)
            return
    wanted.touch()
