"""Sets with how much accumulation Lightning's Trainer is made, for a script that says it in its source: the script is not changed.

As ``_autofit_lightning_trainer.py`` beside a ``sitecustomize.py`` that loads it, in a folder of their own, for every Python process:

    PYTHONPATH=/that/folder LIGHTNING_ACCUMULATION=2:8 python train.py

A Trainer that is made with the first number gets the second; setting it twice changes nothing. Another is left alone, and told on stderr.
This file needs nothing but Lightning, and ``imported.py`` beside it.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from typing import Any

from .imported import after_import

VARIABLE = "LIGHTNING_ACCUMULATION"
_WORD = "accumulate_grad_batches"
_MODULES = ("lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer")


def into(module: str, given: int, wanted: int) -> None:
    """Patches the Trainer of a module that has been imported."""
    trainer = sys.modules[module].Trainer
    made = trainer.__init__
    signature = inspect.signature(made)

    @functools.wraps(made)
    def begun(this: Any, *args: Any, **kwargs: Any) -> None:
        said = signature.bind(this, *args, **kwargs).arguments.get(_WORD, 1)
        if said == given:
            kwargs[_WORD] = wanted
        elif said != wanted:
            told = f"autofit: Trainer({_WORD}={said!r}) is left as it is: the launch was made for {given}"
            print(told, file=sys.stderr, flush=True)
        made(this, *args, **kwargs)

    trainer.__init__ = begun


# ----------------------------------------------------------------------------------------------------------------------
# As a process begins


def begin() -> None:
    """Called by the sitecustomize that has loaded this file, before the program begins."""
    given, _, wanted = os.environ.get(VARIABLE, "").partition(":")
    if wanted:
        after_import({module: functools.partial(into, module, int(given), int(wanted)) for module in _MODULES})
