"""Where autofit's own files, its state and its cache lie, and how a file is named to a person."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from launcher.shared import files


def home() -> Path:
    """The folder that holds conf/, recipes/ and examples/: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parent
    return package if (package / "conf").is_dir() else package.parent


def state_folder() -> Path:
    """What launches learn for later ones (``history.database``), and what detached ones print."""
    return _folder("XDG_STATE_HOME", ".local/state")


def cache_folder() -> Path:
    """What can be made anew: traces, results of self-tests."""
    return _folder("XDG_CACHE_HOME", ".cache")


def _folder(variable: str, default: str) -> Path:
    """autofit's folder below the one that a variable names, by platformdirs' rules; the variable counts where it is an absolute path."""
    said = Path(os.environ.get(variable, ""))
    return (said if said.is_absolute() else Path("~", default).expanduser()) / "autofit"


def short(path: Path) -> str:
    """A file as a person would name it from here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


LAUNCHED = "AUTOFIT_LAUNCHED"
"""Environment variable: a file in which a launch tells its run folder to the process that has started it, and waits to hear of it."""


def launched(told: Path) -> Path | None:
    """The run folder that a launch has told in its file; None where it has told none yet."""
    with suppress(OSError):
        lines = told.read_text(encoding="utf-8").splitlines()
        return Path(lines[0]) if lines else None
    return None


def tell_launched(folder: Path) -> None:
    """Tells the run folder to who waits for it; once, and not to what this process starts itself."""
    waiting = os.environ.pop(LAUNCHED, None)
    if waiting:
        with suppress(OSError):
            files.replace(Path(waiting), f"{folder}\n")
