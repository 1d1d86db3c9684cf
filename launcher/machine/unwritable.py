"""Looks why a training's files can't be written, and says it in a sentence: a full disk, or a read-only folder."""

from __future__ import annotations

import tempfile
from pathlib import Path

from launcher.machine import host


def full_disk(folder: Path) -> str:
    """Which disk is full, of those that a training with this run folder writes to; empty if none is."""
    places = {folder: "its run folder", Path.cwd(): "the folder it was launched in", Path(tempfile.gettempdir()): "the temporary folder"}
    return next((f"no room is left on the disk of {what}, {place}" for place, what in places.items() if host.disk_full(place)), "")


def read_only(folder: Path) -> str:
    """Why the run folder can't be written; empty if it can."""
    error = host.not_writable(folder)
    return f"its run folder {folder} can't be written any more: {error.strerror}" if error is not None else ""
