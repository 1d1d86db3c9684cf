"""Where autofit's own files and state lie, and how a file is named to a person."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from launcher.shared import files


def home() -> Path:
    """The folder that holds conf/, recipes/ and examples/: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parent
    return package if (package / "conf").is_dir() else package.parent


def state() -> Path:
    """Where the words of launches lie that no terminal shows."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "autofit"


def data_folder() -> Path:
    """What earlier trials have shown: data of the person's, which nothing makes anew."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "autofit"


def short(path: Path) -> str:
    """A file as a person would name it from here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def cache_folder() -> Path:
    """autofit's own, for what is worth keeping between launches."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "autofit"


LAUNCHED = "AUTOFIT_LAUNCHED"
"""Environment variable: a file in which a launch tells its run folder to the process that has started it, and waits to hear of it."""


def tell_launched(folder: Path) -> None:
    """Tells the run folder to who waits for it; once, and not to what this process starts itself."""
    waiting = os.environ.pop(LAUNCHED, None)
    if waiting:
        with suppress(OSError):
            files.replace(Path(waiting), f"{folder}\n")
