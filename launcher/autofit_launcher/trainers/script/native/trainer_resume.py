"""Tells where transformers' Trainer keeps its checkpoints, and has it go on from one, for a script that has no word for that.

As ``_autofit_trainer_resume.py`` beside a ``sitecustomize.py`` that loads it, in a folder of their own, for every Python process:

    PYTHONPATH=/that/folder TRAINER_KEPT_IN=/a/file TRAINER_RESUME=out/checkpoint-500 python train.py

TRAINER_KEPT_IN gets the folder of each training as it begins, a line each. The first training whose folder TRAINER_RESUME lies in goes on
from there, at the batch that it is given now (transformers 4 would take the checkpoint's); another is left alone.
This file needs nothing but transformers, and ``imported.py`` beside it.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from .imported import after_import

KEPT_IN, RESUME = "TRAINER_KEPT_IN", "TRAINER_RESUME"


def into_trainer(kept_in: str, checkpoint: str, module: Any) -> None:
    """Patches ``transformers.trainer``."""
    trains, waiting = module.Trainer.train, [os.path.abspath(checkpoint)] if checkpoint else []

    @functools.wraps(trains)
    def train(this: Any, resume_from_checkpoint: Any = None, *more: Any, **kwargs: Any) -> Any:
        place = os.path.abspath(this.args.output_dir)
        if kept_in and os.environ.get("RANK", "0") == "0":
            with open(kept_in, "a+", encoding="utf-8") as file:
                file.seek(0)
                if place not in file.read().splitlines():
                    file.write(f"{place}\n")
        if not waiting or os.path.dirname(waiting[0]) != place:
            return trains(this, resume_from_checkpoint, *more, **kwargs)
        _at_its_own_batch(this, module.TrainerState)
        return trains(this, waiting.pop(), *more, **kwargs)

    module.Trainer.train = train


def _at_its_own_batch(trainer: Any, state: Any) -> None:
    load = state.load_from_json

    def loaded(path: str) -> Any:
        found = load(path)
        found.train_batch_size = trainer._train_batch_size
        return found

    state.load_from_json = staticmethod(loaded)


def begin() -> None:
    """Begins in this process: the sitecustomize that has loaded this file calls it before the program begins."""
    kept_in, checkpoint = os.environ.get(KEPT_IN, ""), os.environ.get(RESUME, "")
    if kept_in or checkpoint:
        after_import({"transformers.trainer": functools.partial(into_trainer, kept_in, checkpoint)})
