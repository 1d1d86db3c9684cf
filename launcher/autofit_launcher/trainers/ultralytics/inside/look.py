"""Runs a script up to its training by Ultralytics, and tells what that would train. In a process of its own, which ends there.

python -m autofit_launcher.trainers.ultralytics.inside.look FOUND.json SCRIPT.py [ARGUMENTS...]
    FOUND.json gets what arrives at ``model.train``; it isn't written where the script ends before it trains. What the script writes goes
    to the folder of that file
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml
from ultralytics.cfg import TASK2DATA, get_cfg
from ultralytics.engine.model import Model
from ultralytics.engine.trainer import BaseTrainer
from ultralytics.utils import DEFAULT_CFG_DICT, checks

from autofit_launcher.inside import overlaid_libraries
from autofit_launcher.inside.after_import import after_import
from autofit_launcher.inside.overlay import Overlay
from autofit_launcher.inside.quiet import QUIET

STARTED_IN = os.getcwd()
_ALWAYS = ("batch", "imgsz", "data")
_PLACES = ("project", "name", "save_dir", "exist_ok")
_NOT_SAID = ("cfg", "mode", "task", "model", "session")
_PLAIN = (str, int, float, list, tuple, dict, type(None))
_ONE = "autofit fits one training of model.train(...)."


def main(argv: Sequence[str]) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # nobody sees what a script asks here
    path, words = Path(argv[0]), list(argv[1:])
    overlay = Overlay(path.parent / "overlay", kept=(path.parent,))
    overlay.install()
    os.environ.update(QUIET)
    sys.dont_write_bytecode = True
    after_import(overlaid_libraries.hooks(overlay))

    def found(**what: Any) -> NoReturn:
        path.write_text(json.dumps(what), encoding="utf-8")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # nothing of the script runs any more: no handler, no thread

    def trains(this: Any, trainer: Any = None, **keywords: Any) -> NoReturn:
        if trainer is not None:
            found(refused=(f"trainer={getattr(trainer, '__name__', trainer)}, a trainer of the script's own", "Launch it without autofit."))
        arrived = _arriving(this, keywords)
        given = {key: value for key, value in arrived.items() if key in _ALWAYS or value != DEFAULT_CFG_DICT.get(key)}
        found(
            model=_from_start(str(this.overrides.get("model", ""))),
            task=this.task,
            given={key: value for key, value in given.items() if key not in _PLACES and isinstance(value, _PLAIN)},
        )

    Model.train = trains
    Model.tune = lambda *_, **__: found(refused=("model.tune: many trainings, each with settings of its own", _ONE))
    BaseTrainer.train = lambda *_, **__: found(refused=("a trainer that the script makes itself, in the place of model.train", _ONE))
    sys.argv, sys.path[0] = words, os.path.dirname(os.path.realpath(words[0]))
    runpy.run_path(words[0], run_name="__main__")


def _arriving(model: Any, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Every argument of a training as Ultralytics takes it: from a file (``cfg``), the model's own, the keywords; its defaults else."""
    file = keywords.get("cfg")
    own = yaml.safe_load(Path(checks.check_yaml(file)).read_text(encoding="utf-8")) if file else {**model.overrides, "data": None}
    said = {**own, "data": own.get("data") or TASK2DATA[model.task], **keywords}
    arrived = vars(get_cfg(overrides={key: value for key, value in said.items() if key not in _NOT_SAID}))
    arrived = {key: os.fspath(value) if isinstance(value, os.PathLike) else value for key, value in arrived.items() if key not in _NOT_SAID}
    return {**arrived, "data": _from_start(arrived["data"])}


def _from_start(name: Any) -> Any:
    """A file's name as it is found from the folder that the program was started in, for a script that goes to another."""
    moved = isinstance(name, str) and os.getcwd() != STARTED_IN and os.path.exists(name)
    return os.path.abspath(name) if moved else name


if __name__ == "__main__":
    main(sys.argv[1:])
