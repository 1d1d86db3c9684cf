"""How an attempt at the full run can end. What is known of one is in the record (``history.records.AttemptRecord``)."""

from __future__ import annotations

from enum import StrEnum

from launcher.history.records import AttemptRecord
from launcher.machine import headroom


class Ended(StrEnum):
    """Causes of an attempt's end."""

    DONE = "done"
    OUT_OF_MEMORY = "out_of_memory"  # of the device: allocator, driver, libraries; on a CPU budget of the host
    SPILLED = "spilled"  # it went on out of the card, many times slower, and was ended for that
    HOST_MEMORY = "host_memory"  # beside a card: loader workers, shared or page-locked memory, the kernel's killer
    OPEN_FILES = "open_files"  # more than the process may open (ulimit -n)
    CARD_TAKEN = "card_taken"  # memory ran out that others had taken: says nothing of the rung
    KILLED = "killed"  # SIGKILL from nobody known
    DIVERGED = "diverged"  # the loss was not finite
    STALLED = "stalled"
    DISK_FULL = "disk_full"
    READ_ONLY = "read_only"  # what it wrote to can't be written any more: a mount that went read-only, a mode that was changed
    FILE_TOO_LARGE = "file_too_large"  # a file became larger than the shell (ulimit -f), or the file system, lets it
    CRASHED = "crashed"
    INTERRUPTED = "interrupted"  # a person, a scheduler, or autofit itself was killed


def wrong_by(attempt: AttemptRecord, trial_peak_bytes: int) -> int | None:
    """By how many bytes the fit was wrong: what the run held and asked for, beyond what its trial had shown.

    None if unknown. 0 or less if others took the memory: the run needed no more than its trial, or so little more that two identical
    processes may differ by it (every fit leaves that much free).
    """
    if attempt.ended != Ended.OUT_OF_MEMORY or not attempt.peak_bytes or not trial_peak_bytes:
        return None
    wrong = attempt.peak_bytes + (attempt.asked_bytes or 0) - trial_peak_bytes
    return wrong if wrong > headroom.LEAST_BYTES else min(wrong, 0)
