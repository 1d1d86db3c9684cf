"""Judges a command that starts its ranks itself by the reports of all: the rank that ended it decides, whichever torchrun names. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from launcher.ladder.verdict import Verdict
from launcher.shared.ending import Ending
from launcher.shared.memory_failures import ECHO, memory_failure
from launcher.shared.report import OVER_CAP, RANK, WORLD_SIZE, Failure, Phase, TrialReport

Reports = Sequence[TrialReport]
Judge = Callable[[TrialReport, Ending], Verdict]
_ENDED = re.compile(r"rank\s*:\s*(\d+) \(local_rank: \d+\)\s*\n\s*exitcode\s*:\s*(-\d+)")
"""What torchrun tells of a rank that a signal ended. -15 is its own doing."""


def of_its_own(reports: Reports, ending: Ending, judge: Judge, *, together: Verdict) -> Verdict:
    """The verdict on the rank whose failure the others' came of: memory first; who waits for a rank that is gone fails, too.

    ``judge``: of one process. ``together``: the verdict on all of them as one command, which it is where not every rank has told of itself.
    """
    reports = sorted(reports, key=lambda report: int(report.facts[RANK]))
    if len(reports) < 2 or [report.facts[RANK] for report in reports] != list(range(int(reports[0].facts[WORLD_SIZE]))):
        return together
    at = _cause(reports, ending)
    if at is None:
        return together
    status = dict(_signalled(ending)).get(at, ending.returncode)  # torchrun's own is always 1
    verdict = judge(reports[at], replace(ending, returncode=status, peak_data_bytes=0))
    return replace(verdict, why=f"rank {at} of {len(reports)}: {verdict.why}", peak_bytes=max(verdict.peak_bytes, together.peak_bytes))


def _cause(reports: Reports, ending: Ending) -> int | None:
    """The rank that ended the trial; None if none failed."""
    failures = [(rank, report.failure) for rank, report in enumerate(reports) if report.failure is not None]
    own = [rank for rank, failure in failures if not ECHO.search(failure.message)]
    memory = [rank for rank, failure in failures if _speaks_of_memory(failure)]
    hidden = [rank for rank, report in enumerate(reports) if report.swallowed and failures]
    signalled = [rank for rank, _ in _signalled(ending) if rank < len(reports)]
    still = [rank for rank, report in enumerate(reports) if failures and report.failure is None and report.phase != Phase.DONE]
    found = (*memory, *hidden, *own, *signalled, *still, *(rank for rank, _ in failures))
    return next(iter(found), None)


def _speaks_of_memory(failure: Failure) -> bool:
    return OVER_CAP in failure.types or memory_failure(failure.message, types=failure.types) is not None


def _signalled(ending: Ending) -> list[tuple[int, int]]:
    """(rank, exit status) of those that a signal ended."""
    return [(int(rank), int(status)) for rank, status in _ENDED.findall(ending.stderr_tail) if status != "-15"]
