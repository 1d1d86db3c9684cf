"""Puts a twin's hooks into this process, once torch is imported."""

from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..after_import import after_import
from . import still
from .rows import Rows
from .still import AtRest
from .told import Told
from .updates import Updates


def libraries() -> dict[str, Callable[[Any], None]]:
    """Module -> what is to be done when it has been imported."""
    return {"ultralytics.utils.tal": still.targets_count}


def install(said: Mapping[str, Any], records: Path) -> None:
    """Called with torch just imported. ``said``: ``Told`` as a dictionary."""
    told, place = Told.of(said), records / str(os.getpid())
    place.mkdir(parents=True, exist_ok=True)
    rest = AtRest(told.micro_batch)
    rows = Rows(told, rest)
    updates = Updates(told, place, rows, rest)
    seen = functools.partial(updates.facts.update, batch_norm=True)
    still.install(rest, batch_norm_trains=told.batch_norm_trains, seen_batch_norm=seen)
    rows.install()
    updates.install()
    after_import({"deepspeed.runtime.engine": updates.of_engine})
    atexit.register(updates.at_exit)
