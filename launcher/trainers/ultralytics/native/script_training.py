"""Runs a script as ``python script.py`` does, with its training by Ultralytics handed to whoever takes it. Beside ``yolo_script.py``.

A setting is seen, and set, where it arrives: at ``model.train``, whatever the script did to it before. The script's file is not changed.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import yaml
from ultralytics.cfg import TASK2DATA, get_cfg
from ultralytics.engine.model import Model
from ultralytics.utils import checks

Takes = Callable[[Any, Any, Mapping[str, Any]], Any]
"""(model, the script's own trainer or None, keywords of the call) -> what the script gets for its training."""

plain_train: Callable[..., Any] = Model.train
STARTED_IN = os.getcwd()
_CARDS = "CUDA_VISIBLE_DEVICES"
STARTED_WITH = os.environ.get(_CARDS)
PLACES = ("project", "name", "save_dir", "exist_ok")
"""Arguments that say where a run is kept."""
_NOT_SAID = ("cfg", "mode", "task", "model", "session")


def hand_over(takes: Takes) -> None:
    """From now on every training that is asked of a model of Ultralytics' goes to ``takes``."""

    def train(self: Any, trainer: Any = None, **keywords: Any) -> Any:
        _cards_as_started()
        return takes(self, trainer, keywords)

    Model.train = train
    torch.cuda.is_available()  # from here on CUDA has the cards it was given


def _cards_as_started() -> None:
    """The cards that this program was given are those that it trains on, whatever the script has set since: a trial was made there."""
    os.environ.pop(_CARDS, None)
    os.environ.update({_CARDS: STARTED_WITH} if STARTED_WITH is not None else {})


def run(words: Sequence[str]) -> None:
    """The script and its arguments, in this process, as its main program; ``-m`` and a module may stand in the script's place."""
    if words[0] == "-m":
        sys.argv = list(words[1:])
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    script = os.path.abspath(words[0])
    sys.argv = list(words)
    sys.path.insert(0, os.path.dirname(os.path.realpath(script)))
    main = ModuleType("__main__")
    main.__file__ = script
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    exec(compile(Path(script).read_bytes(), script, "exec", dont_inherit=True), main.__dict__)


def arriving(model: Any, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Every argument of a training as Ultralytics takes it: from a file (``cfg``), the model's own, the keywords; its defaults else."""
    file = keywords.get("cfg")
    own = yaml.safe_load(Path(checks.check_yaml(file)).read_text(encoding="utf-8")) if file else {**model.overrides, "data": None}
    said = {"data": own.get("data") or TASK2DATA[model.task], **keywords}
    said = {key: value for key, value in {**own, **said}.items() if key not in _NOT_SAID}
    arrived = {key: value for key, value in vars(get_cfg(overrides=said)).items() if key not in _NOT_SAID}
    arrived = {key: os.fspath(value) if isinstance(value, os.PathLike) else value for key, value in arrived.items()}
    return {**arrived, "data": from_start(arrived["data"])}


def from_start(name: Any) -> Any:
    """A file's name as it is found from the folder that the program was started in, for a script that goes to another."""
    moved = isinstance(name, str) and os.getcwd() != STARTED_IN and os.path.exists(name)
    return os.path.abspath(name) if moved else name


def differing(arrived: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """What arrives otherwise than it was expected, in words; where a run is kept doesn't count."""
    return [
        f"{key}={arrived.get(key)!r} instead of {value!r}"
        for key, value in expected.items()
        if key not in PLACES and _plain(arrived.get(key)) != _plain(value)
    ]


def _plain(value: Any) -> Any:
    """As JSON gives it back."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value
