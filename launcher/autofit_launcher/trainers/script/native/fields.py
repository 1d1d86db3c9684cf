"""Sets what a known trainer is called with, for a script that says it in its source: the script is not changed, and never hears of it.

As ``_autofit_fields.py`` beside a ``sitecustomize.py`` that loads it, in a folder of their own, for every Python process:

    PYTHONPATH=/that/folder FIELDS='{"per_device_train_batch_size": [32, 8]}' python train.py

Each field has the value that the script gives (null: whatever it gives), and the one that it shall have. transformers' arguments are set as
a ``Trainer`` is made: until then the script computes with its own numbers, and a schedule or a length that it works out is the plain run's.
Lightning's accumulation is set as its ``Trainer`` is made.
Only what holds every given value is set, all at once; setting it twice changes nothing. Others are left alone, and told on stderr; so are
arguments that have derived others of the batch already (TRL's GRPO).
``auto_find_batch_size`` is switched off: it would lower the batch, and not raise the accumulation.
This file needs nothing but the trainer's package, and ``imported.py`` beside it.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .imported import after_import

VARIABLE = "FIELDS"
LIGHTNING = ("lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer")
_ACCUMULATION = "accumulate_grad_batches"
"""Keyword of Lightning's Trainer."""
_DERIVED = "generation_batch_size"
"""Field of TRL's GRPO and its kin, which is worked out of the batch as they are made."""


class FieldOrders:
    """The fields to set, in one process."""

    def __init__(self, orders: Mapping[str, Sequence[Any]]) -> None:
        self._orders = orders

    def fit(self, held: Mapping[str, Any]) -> bool:
        """Tells whether the values that are held are those that the launch was made for."""
        return all(given is None or held[name] == given for name, (given, _) in self._orders.items())

    def done(self, held: Mapping[str, Any]) -> bool:
        return all(held[name] == wanted for name, (_, wanted) in self._orders.items())

    def told(self, what: str, held: Mapping[str, Any]) -> None:
        """Says on stderr that something is left as it is."""
        values = ", ".join(f"{name}={held[name]!r} instead of {given!r}" for name, (given, _) in self._orders.items())
        said = f"autofit: {what} is left as it is: it holds other values than the launch was made for ({values})"
        print(said, file=sys.stderr, flush=True)

    def into_lightning(self, module: Any) -> None:
        """Patches Lightning's module of its Trainer, whose accumulation gets its wanted value."""
        made = module.Trainer.__init__

        @functools.wraps(made)
        def begun(this: Any, *args: Any, **kwargs: Any) -> None:
            held = {_ACCUMULATION: kwargs.get(_ACCUMULATION, 1)}
            if self.fit(held):
                kwargs[_ACCUMULATION] = self._orders[_ACCUMULATION][1]
            elif not self.done(held):
                self.told("Trainer", held)
            made(this, *args, **kwargs)

        module.Trainer.__init__ = begun

    def set(self, arguments: Any) -> bool:
        """Sets the arguments; tells whether they were set, or hold what is wanted already."""
        held = self.of(arguments)
        if self.done(held) or not self.fit(held) or getattr(arguments, _DERIVED, None):
            return self.done(held)
        for name, (_, wanted) in self._orders.items():
            setattr(arguments, name, wanted)
        arguments.auto_find_batch_size = False
        return True

    def of(self, arguments: Any) -> dict[str, Any]:
        return {name: getattr(arguments, name, None) for name in self._orders}

    def into_trainer(self, module: Any) -> None:
        """Patches ``transformers.trainer``."""
        made = module.Trainer.__init__

        @functools.wraps(made)
        def begun(this: Any, model: Any = None, args: Any = None, *more: Any, **kwargs: Any) -> None:
            if args is not None and not self.set(args):
                self.told(type(args).__name__, self.of(args))
            made(this, model, args, *more, **kwargs)

        module.Trainer.__init__ = begun


def begin() -> None:
    """Begins in this process: the sitecustomize that has loaded this file calls it before the program begins."""
    orders: dict[str, Sequence[Any]] = json.loads(os.environ.get(VARIABLE) or "{}")
    acts = dict[str, Callable[[Any], None]]()
    if (order := orders.pop(_ACCUMULATION, None)) is not None:
        acts |= dict.fromkeys(LIGHTNING, FieldOrders({_ACCUMULATION: order}).into_lightning)
    if orders:
        acts["transformers.trainer"] = FieldOrders(orders).into_trainer
    if acts:
        after_import(acts)
