"""Faults of a recipe that several adapters look for. Pure, save for a look into a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from launcher.config.schema import Recipe
from launcher.errors import Fault


def destination_faults(key: str, folder: Any) -> list[Fault]:
    """A fault if ``folder`` (``trainer.args.KEY``) isn't empty: nothing is ever trained into such a folder."""
    if not isinstance(folder, str) or not Path(folder).is_dir() or not any(Path(folder).iterdir()):
        return []
    cure = "Name a new folder, or leave it out: the run folder is used."
    return [Fault(key=f"trainer.args.{key}", found=f"{folder} is not empty", cure=cure)]


def share_faults(recipe: Recipe) -> list[Fault]:
    """Faults of shares of the layers that ``checkpointing`` is asked or may turn to, which aren't between 0 and 1."""
    turned = recipe.ladder.wheels.get("checkpointing")
    values = [("ladder.wheels.checkpointing.values", value) for value in (turned.values or () if turned is not None else ())]
    return [
        Fault(key=key, found=f"{value}", cure="Say true, false, or a share between 0 and 1, such as 0.5.")
        for key, value in [("ask.checkpointing", recipe.ask.get("checkpointing")), *values]
        if isinstance(value, (int, float)) and not isinstance(value, bool) and not 0 < value < 1
    ]
