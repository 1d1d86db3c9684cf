"""The end of a child process, seen from outside: ``machine.process`` returns it, ``trial.judge`` judges by it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """The end of a child process, as the launcher saw it from outside."""

    returncode: int
    """Exit status as ``subprocess`` gives it: negative for a signal."""
    timed_out: bool = False
    stood_still: str = ""
    """Stacks of its processes, if it was ended because it stood still; empty for any other end."""
    seconds: float = 0.0
    """Duration without pauses (Ctrl-Z)."""
    peak_data_bytes: int = 0
    """Most VmData seen of one of its processes: a signal may have ended it before it could report."""
    stderr_tail: str = ""
    read_only: str = ""
    """The reason why its folder could not be written, as seen when it had ended; empty if it could."""
    full_disk: str = ""
    """The disk that was full then; empty if none was."""
