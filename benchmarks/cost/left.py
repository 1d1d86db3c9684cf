"""What a play in a folder of its own leaves behind: processes, and files."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path

import psutil

HOLDS, GRACE_S = "LAUNCHES_PLACE", 5.0
"""The variable by which all processes of a play are found, and the seconds that they have to end."""


def processes(place: Path) -> list[psutil.Process]:
    """Finds the living processes that carry the place of a play in their environment, or work in it."""
    found = []
    for one in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if one.pid != os.getpid() and (one.environ().get(HOLDS) == str(place) or Path(one.cwd()).is_relative_to(place)):
                found.append(one)
    return found


def left(place: Path) -> list[str]:
    """Names the processes that are left some seconds after a play, and ends them."""
    until = time.monotonic() + GRACE_S
    while (found := processes(place)) and time.monotonic() < until:
        time.sleep(0.2)
    said = []
    for one in found:
        with suppress(psutil.Error):
            said.append(f"{one.status()}: {' '.join(one.cmdline())}"[:200].replace(str(place), "{place}"))
            one.kill()
    return said


def files(place: Path) -> set[str]:
    """Lists what lies in a play's folders, but for the launch's own; all numbers in names count as one, and so do hashes."""
    every = [path.relative_to(place) for path in place.rglob("*") if path.is_file()]
    own = [path for path in every if path.parts[0] == "state" or path.parts[:2] == ("work", "runs")]
    return {re.sub(r"\b[a-z0-9]{40,}|\d+", "#", str(path)) for path in every if path not in own}
