"""How a child process ended, as the launcher saw it from outside. ``machine.process`` makes it, ``trial.judge`` judges by it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How a child process ended, as the launcher saw it from outside."""

    returncode: int
    """As ``subprocess`` gives it: negative for a signal."""
    timed_out: bool = False
    stood_still: str = ""
    """Where its processes stood, for a child that was ended since it came no further; empty for any other end."""
    computed: bool = False
    """It computed all the same: an endless loop, perhaps."""
    seconds: float = 0.0
    peak_data_bytes: int = 0
    """Most VmData seen, for a child that a signal ended before it could report."""
    stderr_tail: str = ""
