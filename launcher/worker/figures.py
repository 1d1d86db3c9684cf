"""Frees the memory of closed matplotlib figures when a new one is made, in trials and full runs whose budget is host memory.

A closed figure is megabytes of pixels (13 MiB of Ultralytics' at 250 dpi) in a cycle that only Python's collector breaks, and when that
comes nobody knows: a run lost a figure so, and another needed 11 % more than its trial had shown. Matplotlib calls ``figure.hooks`` for
every new figure of pyplot's (since 3.7); there the collector comes. What was there before is frozen, so that it has little to look through:
until the process ends, where Python clears it as ever. (Left frozen it isn't cleared, and nanobind lists 25 lines of what has leaked.)
"""

from __future__ import annotations

import atexit
import gc
import sys
from typing import Any

HOOK = f"{__name__}:collect"


def let_go() -> None:
    """From here on a new figure frees the closed ones before it. Nothing where matplotlib isn't there, or is too old to tell."""
    matplotlib = sys.modules.get("matplotlib")
    hooks = matplotlib.rcParams.get("figure.hooks") if matplotlib is not None else None
    if hooks is None or HOOK in hooks:
        return
    hooks.append(HOOK)
    gc.freeze()
    atexit.register(gc.unfreeze)


def collect(_: Any) -> None:
    """For a figure that is new."""
    gc.collect()
