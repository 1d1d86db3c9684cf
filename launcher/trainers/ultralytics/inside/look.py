"""Runs a script up to its training by Ultralytics, and tells what that would train. In a process of its own, which ends there.

python -m launcher.trainers.ultralytics.inside.look FOUND.json SCRIPT.py [ARGUMENTS...]
    FOUND.json gets what arrives at ``model.train``; it isn't written where the script ends before it trains. What the script writes goes
    to the folder of that file
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import ultralytics
from ultralytics.engine.model import Model
from ultralytics.engine.trainer import BaseTrainer
from ultralytics.utils import DEFAULT_CFG_DICT

from launcher.inside import overlaid_libraries
from launcher.inside.after_import import after_import
from launcher.inside.overlay import Overlay
from launcher.inside.quiet import QUIET
from launcher.trainers.ultralytics.native import yolo_script
from launcher.trainers.ultralytics.native.exact_settings import Refused
from launcher.trainers.ultralytics.native.exact_trainer import trainer_for

_ALWAYS = ("batch", "imgsz", "data")
_NOT_THE_PERSONS = (os.path.dirname(ultralytics.__file__), __file__, yolo_script.__file__)


def _told(value: Any) -> bool:
    """Whether JSON can say it."""
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def _place() -> list[Any]:
    """File and line of the person's own that asks."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_NOT_THE_PERSONS):
        frame = frame.f_back
    return [frame.f_code.co_filename, frame.f_lineno] if frame is not None else ["", 0]


def _made(overlay: Overlay, data: str) -> str | None:
    """The text of the data set's file, where the script has written one that isn't there without it."""
    both = overlay.twin(data) if data.endswith((".yaml", ".yml")) else None
    if both is None or overlay.there(both[0]) or not overlay.there(both[1]):
        return None
    return Path(both[1]).read_text(encoding="utf-8")


def main(argv: Sequence[str]) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # nobody sees what a script asks here
    path = Path(argv[0])
    overlay = Overlay(path.parent / "overlay", kept=(path.parent,))
    overlay.install()
    os.environ.update(QUIET)
    sys.dont_write_bytecode = True
    after_import(overlaid_libraries.hooks(overlay))

    def found(**what: Any) -> NoReturn:
        path.write_text(json.dumps({**what, "place": _place()}), encoding="utf-8")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # nothing of the script runs any more: no handler, no thread

    def trains(model: Any, trainer: Any, keywords: Mapping[str, Any]) -> NoReturn:
        try:
            trainer_for(model)
        except Refused as refused:
            found(instead=str(refused))
        arrived = yolo_script.arriving(model, keywords)
        given = {key: value for key, value in arrived.items() if key in _ALWAYS or value != DEFAULT_CFG_DICT.get(key)}
        found(
            model=yolo_script.from_start(str(model.overrides.get("model", ""))),
            task=model.task,
            trainer=f"{trainer.__module__}.{trainer.__name__}" if trainer is not None else "",
            made=_made(overlay, str(arrived["data"])),
            given={key: value for key, value in given.items() if key not in yolo_script.PLACES and _told(value)},
        )

    yolo_script.hand_over(trains)
    Model.tune = lambda *_, **__: found(instead="model.tune: many trainings, each with settings of its own")
    BaseTrainer.train = lambda *_, **__: found(instead="a trainer that the script makes itself, in the place of model.train")
    yolo_script.run(argv[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
