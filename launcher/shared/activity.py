"""What is being done that may take a while, told to whoever listens: the terminal. Where nobody does, it costs nothing.

As with logging, what takes long says so where it does; no screen is handed down to it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Activity:
    """Something that goes on now."""

    words: str
    told: bool = False
    """It has been said in another way, or needs no words where there is no terminal."""
    since: float = field(default_factory=time.monotonic)


_going_on: list[Activity] = []
_listener: Callable[[Activity | None], None] | None = None


def listen(listener: Callable[[Activity | None], None] | None) -> None:
    """``listener`` hears of the innermost activity whenever it is another one or has other words; None: nothing goes on."""
    global _listener
    _listener = listener


@contextmanager
def doing(words: str, *, told: bool = False) -> Iterator[None]:
    """While open, that is being done. Only the main thread's activities are told."""
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
    """Other words for what is being done."""
    if _going_on:
        _going_on[-1].words = words
        _tell()


@contextmanager
def nothing_left() -> Iterator[None]:
    """When this is left, however it is, nothing goes on any more."""
    try:
        yield
    finally:
        if _going_on:
            _going_on.clear()
            _tell()


def _tell() -> None:
    if _listener is not None:
        _listener(_going_on[-1] if _going_on else None)
