"""Faults of a recipe that several adapters look for. Pure, save for a look into a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autofit_launcher.errors import Fault


def destination_faults(key: str, folder: Any) -> list[Fault]:
    """A fault if ``folder`` (``trainer.args.KEY``) isn't empty: nothing is ever trained into such a folder."""
    if not isinstance(folder, str) or not Path(folder).is_dir() or not any(Path(folder).iterdir()):
        return []
    cure = "Name a new folder, or leave it out: the run folder is used."
    return [Fault(key=f"trainer.args.{key}", found=f"{folder} is not empty", cure=cure)]
