"""Announces work that may take a while to a listener (the terminal). Without a listener it costs nothing.

Used like logging: code that takes long announces it itself, and needs no reference to a screen.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Activity:
    """Something that is being done now."""

    words: str
    told: bool = False
    """True: it was announced in another way, or needs no words without a terminal."""
    since: float = field(default_factory=time.monotonic)


_going_on: list[Activity] = []
_listener: Callable[[Activity | None], None] | None = None


def listen(listener: Callable[[Activity | None], None] | None) -> None:
    """Calls ``listener`` with the innermost activity whenever that or its words change, and with None when nothing goes on."""
    global _listener
    _listener = listener


@contextmanager
def doing(words: str, *, told: bool = False) -> Iterator[None]:
    """While open, ``words`` say what is being done. Only activities of the main thread are announced."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    one = Activity(words, told)
    _going_on.append(one)
    _tell()
    try:
        yield
    finally:
        if one in _going_on:
            del _going_on[_going_on.index(one) :]
            _tell()


def now(words: str) -> None:
    """Changes the words of the current activity."""
    if _going_on:
        _going_on[-1].words = words
        _tell()


@contextmanager
def nothing_left() -> Iterator[None]:
    """Ends all activities begun inside when it is left, even by an exception."""
    try:
        yield
    finally:
        if _going_on:
            _going_on.clear()
            _tell()


def _tell() -> None:
    if _listener is not None:
        _listener(_going_on[-1] if _going_on else None)
