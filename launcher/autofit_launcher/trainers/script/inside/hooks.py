"""Tells at which lines data loaders are made."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

from ....inside.after_import import Hook
from ....inside.instrument import Instrument
from ..native.loaders import maker


def hooks(instrument: Instrument) -> dict[str, tuple[str, Hook]]:
    """Module -> (a name that must be in it, what is done with it when it has been imported)."""
    return {"torch.utils.data.dataloader": ("DataLoader", functools.partial(_loaders, instrument))}


def _loaders(instrument: Instrument, module: Any) -> None:
    make = module.DataLoader.__init__

    @functools.wraps(make)
    def made(this: Any, *args: Any, **kwargs: Any) -> None:
        frame = maker(sys._getframe(1), this)
        make(this, *args, **kwargs)
        instrument.arrives.at(this, f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}")

    module.DataLoader.__init__ = made
