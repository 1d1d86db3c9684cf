"""Ultralytics writes last.pt and best.pt over those before them, by their paths' ``write_bytes``: the paths of a full run keep the old file
whole until the new one is. Read in engine/trainer.py of 8.4.190 (``save_model``).

For plain ``yolo`` commands; what goes through ``native/exact_trainer.py`` has paths of its own."""

from __future__ import annotations

import pathlib
from typing import Any

from ....inside import whole_saves
from ....inside.after_import import after_import


def install() -> None:
    """In this process, as soon as Ultralytics' callbacks are there."""
    after_import({"ultralytics.utils.callbacks.base": _callbacks})


def _callbacks(module: Any) -> None:
    module.default_callbacks["on_train_start"].append(_train_starts)


def _train_starts(trainer: Any) -> None:
    for name in ("last", "best"):
        path = getattr(trainer, name, None)
        if type(path) is type(pathlib.Path()):
            setattr(trainer, name, _Whole(path))


class _Whole(type(pathlib.Path())):  # type: ignore[misc]
    """A path whose file is replaced in one move."""

    def write_bytes(self, data: Any) -> int:
        return int(whole_saves.replaced(self, lambda place: pathlib.Path(place).write_bytes(data)))
