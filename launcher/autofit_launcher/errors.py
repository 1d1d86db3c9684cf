"""The exceptions that stop autofit, the faults they carry, and the exit statuses.

What a *trial* or a *run* did is data (``verdict.Verdict``, ``records.RunRecord``), never an exception.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """The launcher's exit status; documented in docs/commands.md and stable."""

    DONE = 0
    BAD_INPUT = 1
    NO_RUNG_FITS = 3
    TRIAL_CRASHED = 4
    RUN_FAILED = 5
    RESUME = 75
    """EX_TEMPFAIL of sysexits.h: SIGTERM or SIGHUP stopped it, and ``autofit resume RUN`` goes on."""
    INTERRUPTED = 130


COMMAND_LINE = "command line"
"""``Fault.where`` of something that was typed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One thing that is wrong with the input: where it stands, what was found, what would work.

    ``key``: the full dotted key, or empty; ``where``: the file or "command line".
    """

    key: str
    found: str
    cure: str
    where: str = ""

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.where, self.key) if part)
        end = " " if self.found.endswith((".", "!", "?", ":")) else ". "  # none is glued to a path that it would be copied with
        return (f"{place}: " if place else "") + self.found + (f"{end}{self.cure}" if self.cure else "")


class AutofitError(Exception):
    """autofit itself cannot go on."""

    exit_code = ExitCode.BAD_INPUT


class BadInput(AutofitError):
    """The recipe, its data or the device cannot work: nothing was launched. Carries every fault found, not only the first."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


def refusal(found: str, cure: str, *, where: str | None = None, key: str = "") -> BadInput:
    """One fault of what was typed, or of a key or place."""
    return BadInput([Fault(key=key, where=where if where is not None else "" if key else COMMAND_LINE, found=found, cure=cure)])


class Interrupted(AutofitError):
    """A signal asked autofit to stop; every child has been ended, and no process is left behind."""

    run_dir: str = ""
    """The run folder that can be resumed; empty if there is none."""

    def __init__(self, signal_name: str) -> None:
        self.signal_name = signal_name
        self.exit_code = ExitCode.RESUME if signal_name in ("SIGTERM", "SIGHUP") else ExitCode.INTERRUPTED
        super().__init__(f"interrupted by {signal_name}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ "Did you mean 'x'? ", or an empty text."""
    meant = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"Did you mean {meant[0]!r}? " if meant else ""


PLACE = "your command"
"""Key of faults in a command after ``--``."""
