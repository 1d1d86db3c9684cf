"""Finds the Python that trains: the person's. autofit's own is that only where PyTorch is installed beside autofit."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys

_TRAINS_HERE = importlib.util.find_spec("torch") is not None


def leave_path() -> None:
    """Has PATH name the person's programs: where nothing can train in autofit's own environment, the folder of its programs (uvx puts it
    first) is left out, and that of an environment which is active without being on PATH comes last."""
    if not _TRAINS_HERE:
        places = [place for place in os.environ.get("PATH", os.defpath).split(os.pathsep) if not _own(place)]
        theirs = os.pathsep.join([*places, *_active()])
        if shutil.which("python", path=theirs) or shutil.which("python3", path=theirs):
            os.environ["PATH"] = theirs


def _own(folder: str) -> bool:
    """Tells whether a folder is that of a virtual environment's programs which autofit runs in, by whatever path."""
    return sys.prefix != sys.base_prefix and os.path.realpath(folder) == os.path.realpath(os.path.join(sys.prefix, "bin"))


def _active() -> list[str]:
    """Lists the folders of programs of the environments that a variable names."""
    named = [os.path.join(os.environ[name], "bin") for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if os.environ.get(name)]
    return [folder for folder in named if not _own(folder) and os.path.exists(os.path.join(folder, "python"))]


_FOLLOWED: list[str] = []


def follow(program: str) -> None:
    """Takes the Python of a command's program for the person's: this launch trains with it."""
    _FOLLOWED.clear()
    _FOLLOWED.append(of(program))


def persons() -> str:
    """The Python that trains: that of the command, if there is one; autofit's own, an active environment's, or the first on PATH."""
    if _FOLLOWED:
        return _FOLLOWED[0]
    if _TRAINS_HERE:
        return sys.executable
    active = (os.path.join(folder, "python") for folder in _active())
    return next(active, None) or shutil.which("python") or shutil.which("python3") or sys.executable


def of(program: str) -> str:
    """The interpreter that a program runs on: itself if it is one, or the one beside it (torchrun, accelerate, yolo); else the person's."""
    found = shutil.which(program)
    if found is None or os.path.basename(found).startswith("python"):
        return os.path.abspath(found) if found else persons()
    beside = (os.path.join(os.path.dirname(place), "python") for place in (found, os.path.realpath(found)))  # a program of pipx's is a link
    return next(filter(os.path.exists, beside), persons())
