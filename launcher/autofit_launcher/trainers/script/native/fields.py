"""Sets what a known trainer is called with, for a script that says it in its source: the script is not changed, and never hears of it.

As ``_autofit_fields.py`` beside a ``sitecustomize.py`` that loads it, in a folder of their own, for every Python process:

    PYTHONPATH=/that/folder FIELDS='{"per_device_train_batch_size": [32, 8]}' python train.py

Each field has the value that the script gives (null: whatever it gives), and the one that it shall have. transformers' arguments are set as
a ``Trainer`` is made: until then the script computes with its own numbers, and a schedule or a length that it works out is the plain run's.
Keywords of other trainers (``CALLS``) are set in the call.
Only what holds every given value is set, all at once; setting it twice changes nothing. Others are left alone, and told on stderr; so are
arguments that have derived others of the batch already (TRL's GRPO).
``auto_find_batch_size`` is switched off: it would lower the batch, and not raise the accumulation.
This file needs nothing but the trainer's package, and ``imported.py`` beside it.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .imported import after_import

VARIABLE = "FIELDS"
CALLS: Mapping[tuple[str, str, str], Mapping[str, Any]] = {
    ("lightning.pytorch.trainer.trainer", "Trainer", "__init__"): {"accumulate_grad_batches": 1},
    ("pytorch_lightning.trainer.trainer", "Trainer", "__init__"): {"accumulate_grad_batches": 1},
    ("rfdetr.detr", "RFDETR", "train"): {"batch_size": 4, "grad_accum_steps": 4},
}
"""Calls of trainers: (module, class, method) -> its keywords that can be turned, with their defaults."""
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

    # -- keywords of a call

    def into_call(self, owner: str, method: str, defaults: Mapping[str, Any], module: Any) -> None:
        """Patches the method, in which the keywords get their wanted values."""
        kind = getattr(module, owner)
        real = getattr(kind, method)

        @functools.wraps(real)
        def called(this: Any, *args: Any, **kwargs: Any) -> Any:
            held = {**defaults, **given(real, this, args, kwargs, defaults)}
            if self.fit(held):
                kwargs |= {name: wanted for name, (_, wanted) in self._orders.items()}
            elif not self.done(held):
                self.told(f"{owner}.{method}", held)
            return real(this, *args, **kwargs)

        setattr(kind, method, called)

    # -- transformers' arguments

    def set(self, arguments: Any) -> bool:
        """Sets the arguments; tells whether they were set, or hold what is wanted already."""
        held = self.of(arguments)
        if self.done(held) or not self.fit(held) or getattr(arguments, _DERIVED, None):
            return self.done(held)
        for name, (_, wanted) in self._orders.items():
            setattr(arguments, name, wanted)
        if getattr(arguments, "auto_find_batch_size", False):
            arguments.auto_find_batch_size = False
        return True

    def of(self, arguments: Any) -> dict[str, Any]:
        return {name: getattr(arguments, name, None) for name in self._orders}

    def into_trainer(self, module: Any) -> None:
        """Patches ``transformers.trainer``."""
        trainer = module.Trainer
        made = trainer.__init__

        @functools.wraps(made)
        def begun(this: Any, model: Any = None, args: Any = None, *more: Any, **kwargs: Any) -> None:
            if args is not None and not self.set(args):
                self.told(type(args).__name__, self.of(args))
            made(this, model, args, *more, **kwargs)

        trainer.__init__ = begun


def given(real: Callable[..., Any], this: Any, args: Sequence[Any], kwargs: Mapping[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those of the named keywords that a call gives, by position or by name."""
    try:
        said = inspect.signature(real).bind(this, *args, **kwargs).arguments
    except TypeError:
        return {}  # the call itself says what is wrong
    return {name: value for name, value in {**said, **kwargs}.items() if name in names}


def begin() -> None:
    """Begins in this process: the sitecustomize that has loaded this file calls it before the program begins."""
    orders: dict[str, Sequence[Any]] = json.loads(os.environ.get(VARIABLE) or "{}")
    acts = dict[str, Callable[[Any], None]]()
    for (module, owner, method), defaults in CALLS.items():
        if own := {name: order for name, order in orders.items() if name in defaults}:
            acts[module] = functools.partial(FieldOrders(own).into_call, owner, method, defaults)
    if rest := {name: order for name, order in orders.items() if not any(name in defaults for defaults in CALLS.values())}:
        acts["transformers.trainer"] = FieldOrders(rest).into_trainer
    if acts:
        after_import(acts)
