"""Trains exactly what was asked where a command trains with Ultralytics: ``yolo detect train ...``, or a script's ``YOLO(...).train(...)``.

As ``_autofit_yolo.py`` beside a ``sitecustomize.py`` that loads it, in a folder of their own, for every process of a command:

    PYTHONPATH=/that/folder YOLO_EXACT='{"micro_batch": 16}' python train.py

The command stays as it is, and YOLO_EXACT says what its command line or its script can't (``exact_settings.ExactSettings``). Ultralytics
does not halve the batch by itself when memory runs out: this training is the one that was asked for, or fails. One that fails ends the
command, even where a script catches the error; it is not tried a second time with other settings. Another training after one that went
well runs as it stands. It needs nothing but torch, ultralytics and the files beside it, and was written against Ultralytics 8.4.190:
what it builds upon is checked by what is seen while it runs.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .exact_settings import VARIABLE, ExactSettings, Refused, configure

MODULE = "ultralytics.engine.model"
_CARDS = "CUDA_VISIBLE_DEVICES"


class _Finder:
    """Finds ``MODULE`` as others do, and acts when it is there."""

    def __init__(self, act: Callable[[Any], None]) -> None:
        self._act = act

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec: Any = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def loaded(module: Any) -> None:
            load(module)
            self._act(module)

        spec.loader.exec_module = loaded
        return spec


class Training:
    """The command's training, once it asks for one."""

    def __init__(self, settings: ExactSettings) -> None:
        self._settings = settings
        self._cards = os.environ.get(_CARDS)
        self._plain: Callable[..., Any]
        self._asked = False

    def install(self, module: Any) -> None:
        """Leads every training that is asked of a model here from now on."""
        import torch

        self._plain = module.Model.train

        def train(this: Any, trainer: Any = None, **keywords: Any) -> Any:  # ``yolo`` gives a model among the keywords
            return self._take(this, trainer, keywords)

        module.Model.train = train
        self._on_the_given_cards()
        torch.cuda.is_available()  # from here on CUDA has the cards it was given, whatever a script or select_device("0") says

    def _on_the_given_cards(self) -> None:
        os.environ.pop(_CARDS, None)
        os.environ.update({_CARDS: self._cards} if self._cards is not None else {})

    def _take(self, model: Any, trainer: Any, keywords: Mapping[str, Any]) -> Any:
        from . import yolo_ranks

        if self._asked:
            print("yolo: another training of the script's runs as it stands: it wasn't tried", file=sys.stderr, flush=True)
            if self._settings.tell:
                Path(self._settings.tell).unlink(missing_ok=True)
            return self._plain(model, trainer, **keywords)
        self._asked = True
        self._on_the_given_cards()
        try:
            configure(self._settings)
            _take_labels(os.environ.get("AUTOFIT_LABELS", "") if yolo_ranks.RANK < 1 else "")
            made = self._made(model, trainer, {**keywords, **self._settings.set})
        except Exception as error:
            traceback.print_exc()
            raise SystemExit(1) from error
        finally:
            configure(ExactSettings())
        if self._settings.only:
            raise SystemExit(0)
        yolo_ranks.go_on_alone()
        return made

    def _made(self, model: Any, trainer: Any, keywords: dict[str, Any]) -> Any:
        from .exact_trainer import trainer_for

        if trainer is not None:
            raise Refused(f"trainer={getattr(trainer, '__name__', trainer)}: a trainer of the script's own isn't covered")
        if self._settings.trained:
            return _validated(model, self._settings.trained, keywords)
        exact = trainer_for(model)
        if "resume" in self._settings.set:
            _let_go(model, str(keywords["resume"]))
        return self._plain(model, exact, **keywords)


def _take_labels(folder: str) -> None:
    """Takes labels as a trial scanned them to where Ultralytics has no scan of its own yet: it holds them against the files."""
    for one in Path(folder).rglob("*.cache") if folder else ():
        with contextlib.suppress(OSError), Path("/", one.relative_to(folder)).open("xb") as file:
            file.write(one.read_bytes())


def _let_go(model: Any, checkpoint: str) -> None:
    """The trainer loads the checkpoint by itself: weights and states of what the model has loaded would be held beside for as long as it
    trains. Before Ultralytics 8.4 ``ckpt_path`` is what it goes on from."""
    del model.model  # a module by that name can't become a path
    model.model, model.ckpt, model.ckpt_path = checkpoint, {}, checkpoint


def _validated(model: Any, weights: str, keywords: Mapping[str, Any]) -> Any:
    """Ends as a training does: its best weights become the model's, and are validated; returns what they come to."""
    from ultralytics import YOLO

    done = YOLO(weights)
    kept = {key: keywords[key] for key in ("data", "imgsz", "batch", "device", "workers") if key in keywords}
    metrics = done.val(**kept, plots=False, project=str(Path(weights).parents[1]), name="final", exist_ok=True)
    model.model, model.ckpt, model.ckpt_path = done.model, done.ckpt, done.ckpt_path
    model.overrides, model.metrics = {**done.overrides}, metrics
    return metrics


def begin() -> None:
    """Takes the settings before the program begins; the sitecustomize that has loaded this file calls it."""
    if said := os.environ.get(VARIABLE):
        install, there = Training(ExactSettings(**json.loads(said))).install, sys.modules.get(MODULE)
        install(there) if there else sys.meta_path.insert(0, _Finder(install))
