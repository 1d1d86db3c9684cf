"""Finds the folders of autofit's own files, its state and its cache, and shortens paths for messages."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

from autofit_launcher.common import files


def home() -> Path:
    """The folder that holds conf/, recipes/ and examples/: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parent
    return package if (package / "conf").is_dir() else package.parents[1]


@cache
def entry_points(group: str) -> metadata.EntryPoints:
    """Reads the entry points of installed packages, once: all of their metadata is gone through for it."""
    return metadata.entry_points(group=group)


def state_folder() -> Path:
    """Folder of what launches learn for later ones (``history.kept_fits``) and of the output of detached ones."""
    return _folder("XDG_STATE_HOME", ".local/state")


def cache_folder() -> Path:
    """Folder of what can be made again (libraries of pretended cards)."""
    return _folder("XDG_CACHE_HOME", ".cache")


def _folder(variable: str, default: str) -> Path:
    """autofit's folder below the one in an environment variable, if that is an absolute path, else below ``default``."""
    said = Path(os.environ.get(variable, ""))
    return (said if said.is_absolute() else Path("~", default).expanduser()) / "autofit"


def short(path: Path) -> str:
    """A path relative to the working folder, if it lies below it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def typed(verb: str, place: Path | str) -> str:
    """A command of autofit's on a run's folder, to be copied."""
    return f"autofit {verb} {shlex.quote(str(place))}"


LAUNCHED = "AUTOFIT_LAUNCHED"
"""Environment variable: the file into which a launch writes its run folder, for the process that started it and waits for that."""


def launched(told: Path) -> Path | None:
    """The run folder that a launch has written into the file ``told``; None if it hasn't yet."""
    said = files.tail(told).removesuffix("\n")
    return Path(said) if said else None


def tell_launched(folder: Path) -> None:
    """Writes the run folder into the file that ``LAUNCHED`` names, once; children of this process don't see the variable."""
    if waiting := os.environ.pop(LAUNCHED, ""):
        with suppress(OSError):
            files.replace(Path(waiting), f"{folder}\n")
