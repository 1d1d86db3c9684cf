"""Tells where a command's numbers arrive: the lines that make data loaders, and what trainers are called with of which only keywords are
known (``native.fields``)."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping
from typing import Any

from ....inside.after_import import Hook
from ....inside.instrument import Instrument
from ..native.fields import CALLS, given
from ..native.loaders import maker


def hooks(instrument: Instrument) -> dict[str, tuple[str, Hook]]:
    """Module -> (a name that must be in it, what is done with it when it has been imported)."""
    told = {call: defaults for call, defaults in CALLS.items() if call[2] != "__init__"}  # Lightning's Trainer tells what it has made of it
    return {
        "torch.utils.data.dataloader": ("DataLoader", functools.partial(_loaders, instrument)),
        **{
            module: (owner, functools.partial(_install, instrument, owner, method, defaults))
            for (module, owner, method), defaults in told.items()
        },
    }


def _loaders(instrument: Instrument, module: Any) -> None:
    make = module.DataLoader.__init__

    @functools.wraps(make)
    def made(this: Any, *args: Any, **kwargs: Any) -> None:
        frame = maker(sys._getframe(1), this)
        make(this, *args, **kwargs)
        instrument.arrives.at(this, f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}")

    module.DataLoader.__init__ = made


def _install(instrument: Instrument, owner: str, method: str, defaults: Mapping[str, Any], module: Any) -> None:
    kind = getattr(module, owner)
    real = getattr(kind, method)

    @functools.wraps(real)
    def called(this: Any, *args: Any, **kwargs: Any) -> Any:
        instrument.open()
        instrument.arrives.given({**defaults, **given(real, this, args, kwargs, defaults)})
        return real(this, *args, **kwargs)

    setattr(kind, method, called)
