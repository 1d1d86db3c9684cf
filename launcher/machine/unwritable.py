"""Looks why a training's files can't be written, and says it in a sentence: a full disk, a read-only folder, the shell's own limit."""

from __future__ import annotations

import tempfile
from pathlib import Path

from launcher.machine import host
from launcher.shared.sizes import format_size


def full_disk(folder: Path) -> str:
    """Which disk is full, of those that a training with this run folder writes to; empty if none is."""
    places = {folder: "its run folder", Path.cwd(): "the folder it was launched in", Path(tempfile.gettempdir()): "the temporary folder"}
    return next((f"no room is left on the disk of {what}, {place}" for place, what in places.items() if host.disk_full(place)), "")


def read_only(folder: Path) -> str:
    """Why the run folder can't be written; empty if it can."""
    error = host.not_writable(folder)
    return f"its run folder {folder} can't be written any more: {error.strerror}" if error is not None else ""


def file_limit() -> str:
    """How large this shell lets a file become; empty where it sets no limit. A write beyond it fails, on a disk with room, too."""
    size = host.file_limit()
    return f"this shell lets no file become larger than {format_size(size)} (ulimit -f)" if size is not None else ""
