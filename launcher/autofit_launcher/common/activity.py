"""Tells a listener (the terminal) of work that takes a while. Without a listener it costs nothing.

Used like logging: code that takes long announces it itself, and needs no reference to a screen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SILENT_S = 3.0
"""Nobody is left longer than this without a word of what is being done."""

_listener: Callable[[str], None] | None = None


def listen(listener: Callable[[str], None]) -> None:
    """Calls ``listener``, in a thread of its own, with the words of whatever has taken ``SILENT_S``."""
    global _listener
    _listener = listener


@contextmanager
def doing(words: str) -> Iterator[None]:
    """Tells the listener in ``words`` what is being done, if it is still open after ``SILENT_S``."""
    if _listener is None:
        yield
        return
    timer = threading.Timer(SILENT_S, _listener, (words,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
