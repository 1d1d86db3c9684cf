"""Lets the launcher see where this process stands, even where it hangs: asked by a signal, its Python stacks go to a file."""

from __future__ import annotations

import faulthandler
import os
from contextlib import suppress

from ..common.orders import ASKS_STACKS, STACKS, STACKS_OF


def tell() -> None:
    """Begins to listen, where ``STACKS`` names a folder. The C handler answers where Python code can't (``faulthandler.register``)."""
    folder = os.environ.get(STACKS)
    if not folder or not hasattr(faulthandler, "register"):
        return
    with suppress(OSError, RuntimeError, ValueError):
        os.makedirs(folder, exist_ok=True)
        file = os.open(os.path.join(folder, f"{os.getpid()}{STACKS_OF}"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        faulthandler.register(ASKS_STACKS, file=file, all_threads=True)
