"""Sets what transformers' Trainer trains with, for a script that says it in its source: the script is not changed, and never hears of it.

As ``_autofit_training_arguments.py`` beside a ``sitecustomize.py`` that loads it, in a folder of their own, for every Python process:

    PYTHONPATH=/that/folder TRAINING_ARGUMENTS='{"per_device_train_batch_size": [32, 8]}' python train.py

Each field has the value that the script gives (null: whatever it gives), and the one that it shall have. They are set as a ``Trainer`` is
made: until then the script computes with its own numbers, and a schedule or a length that it works out is the plain run's. Arguments of a
library's own class (TRL's) are set as they are made, since that class derives others from them.
Only arguments that hold every given value are set, all at once; setting them twice changes nothing. Others are left alone, and told on
stderr. ``auto_find_batch_size`` is switched off: it would lower the batch, and not raise the accumulation.
This file needs nothing but transformers, and ``imported.py`` beside it.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from .imported import after_import

VARIABLE = "TRAINING_ARGUMENTS"
_BATCH = "per_device_train_batch_size"
_DERIVED = "steps_per_generation"
"""Of TRL's GRPO: optimizer micro-batches that one generation serves, where the script says it."""


class FieldOrders:
    """The fields to set, in one process."""

    def __init__(self, orders: Mapping[str, Sequence[Any]]) -> None:
        self._orders = orders

    def set(self, arguments: Any) -> bool:
        """Whether the arguments were set, or hold what is wanted already."""
        held = {name: getattr(arguments, name, None) for name in self._orders}
        if all(held[name] == wanted for name, (_, wanted) in self._orders.items()):
            return True
        if any(given is not None and held[name] != given for name, (given, _) in self._orders.items()):
            return False
        for name, (_, wanted) in self._orders.items():
            setattr(arguments, name, wanted)
        if getattr(arguments, "auto_find_batch_size", False):
            arguments.auto_find_batch_size = False
        if isinstance(getattr(arguments, _DERIVED, None), int) and _BATCH in self._orders and held[_BATCH]:
            setattr(arguments, _DERIVED, getattr(arguments, _DERIVED) * held[_BATCH] // getattr(arguments, _BATCH))
        return True

    def told(self, arguments: Any) -> str:
        """What other arguments hold, in words."""
        held = ", ".join(f"{name}={getattr(arguments, name, None)!r} instead of {given!r}" for name, (given, _) in self._orders.items())
        return f"autofit: {type(arguments).__name__} is left as it is: it holds other values than the launch was made for ({held})"

    def into_arguments(self) -> None:
        """Patches ``transformers.training_args``: classes that a library derives from its own set theirs as they are made."""
        base = sys.modules["transformers.training_args"].TrainingArguments
        orders = self

        def derived(cls: Any, /, **kwargs: Any) -> None:
            super(base, cls).__init_subclass__(**kwargs)
            derives = cls.__dict__.get("__post_init__")
            if derives is None or not _of_a_library(cls):
                return

            @functools.wraps(derives)
            def set_first(this: Any, *args: Any, **kwargs: Any) -> None:
                orders.set(this)
                derives(this, *args, **kwargs)

            cls.__post_init__ = set_first

        base.__init_subclass__ = classmethod(derived)

    def into_trainer(self) -> None:
        """Patches ``transformers.trainer``."""
        trainer = sys.modules["transformers.trainer"].Trainer
        made = trainer.__init__

        @functools.wraps(made)
        def begun(this: Any, model: Any = None, args: Any = None, *more: Any, **kwargs: Any) -> None:
            if args is not None and not self.set(args):
                print(self.told(args), file=sys.stderr, flush=True)
            made(this, model, args, *more, **kwargs)

        trainer.__init__ = begun


def _of_a_library(cls: Any) -> bool:
    """Whether a class is an installed package's, and not the person's own."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None) or ""
    return any(f"{os.sep}{part}{os.sep}" in file for part in ("site-packages", "dist-packages"))


# ----------------------------------------------------------------------------------------------------------------------
# As a process begins


def begin() -> None:
    """Called by the sitecustomize that has loaded this file, before the program begins."""
    said = os.environ.get(VARIABLE, "")
    if said:
        orders = FieldOrders(json.loads(said))
        after_import({"transformers.training_args": orders.into_arguments, "transformers.trainer": orders.into_trainer})
