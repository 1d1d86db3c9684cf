"""Judges a trial of several ranks by the reports of all: the rank that ended it decides, whichever torchrun names. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from launcher.ladder.verdict import Kind, Verdict
from launcher.shared.ending import Ending
from launcher.shared.memory_failures import ECHO, memory_failure
from launcher.shared.report import OVER_CAP, RANK, WORLD_SIZE, Failure, Phase, TrialReport
from launcher.shared.sizes import format_size

Reports = Sequence[TrialReport]
Judge = Callable[[TrialReport, Ending], Verdict]
_ENDED = re.compile(r"rank\s*:\s*(\d+) \(local_rank: \d+\)\s*\n\s*exitcode\s*:\s*(-\d+)")
"""What torchrun tells of a rank that a signal ended. -15 is its own doing."""


def judged(reports: Reports, ending: Ending, judge: Judge) -> tuple[TrialReport, Verdict]:
    """(the report that decides, the verdict). ``judge``: of one process.

    Of a failing trial it is the rank whose failure the others' came of: memory first; who waits for a rank that is gone fails, too.
    A trial fits if each rank fits; the rank with least room then tells its need.
    """
    ending = replace(ending, peak_data_bytes=0)  # torchrun's own
    at = _cause(reports, ending)
    if at is not None:
        return reports[at], _of(at, reports, judge(reports[at], _ending_of(at, ending)))
    if (alone := _alone(reports)) is not None:
        return reports[0], alone
    verdicts = [judge(report, ending) for report in reports]
    worst = [at for at, verdict in enumerate(verdicts) if not verdict.fits]
    if worst:
        verdict = verdicts[worst[0]]  # all stood still, and their stacks tell who the others waited for
        return reports[worst[0]], verdict if ending.stood_still else _of(worst[0], reports, verdict)
    at = max(range(len(reports)), key=lambda rank: _share(reports[rank], verdicts[rank]))
    peaks = ", ".join(format_size(verdict.peak_bytes) for verdict in verdicts)
    return replace(reports[at], notes=(*reports[at].notes, f"the {len(reports)} ranks needed {peaks}")), verdicts[at]


def of_its_own(reports: Reports, ending: Ending, judge: Judge, *, together: Verdict) -> Verdict:
    """The verdict on the rank that ended a command which starts its ranks itself; ``together``: on all of them as one command, which it is
    where not every rank has told of itself."""
    reports = sorted(reports, key=lambda report: int(report.facts[RANK]))
    if len(reports) < 2 or [report.facts[RANK] for report in reports] != list(range(int(reports[0].facts[WORLD_SIZE]))):
        return together
    ending = replace(ending, peak_data_bytes=0)
    at = _cause(reports, ending)
    if at is None:
        return together
    verdict = _of(at, reports, judge(reports[at], _ending_of(at, ending)))
    return replace(verdict, peak_bytes=max(verdict.peak_bytes, together.peak_bytes))


def _share(report: TrialReport, verdict: Verdict) -> float:
    return verdict.peak_bytes / report.cap_bytes if report.cap_bytes else 0.0


def _of(rank: int, reports: Reports, verdict: Verdict) -> Verdict:
    return replace(verdict, why=f"rank {rank} of {len(reports)}: {verdict.why}")


def _alone(reports: Reports) -> Verdict | None:
    """Processes that each trained for themselves, or in other groups: nothing is proven of training together."""
    seen = [report.observed.get(WORLD_SIZE) for report in reports]
    if any(report.phase != Phase.DONE for report in reports) or all(one == len(reports) for one in seen):
        return None
    why = f"{len(reports)} processes were started to train together, and they saw {', '.join(map(str, seen))} of them"
    return Verdict(kind=Kind.VACUOUS, phase=reports[0].phase, why=why, evidence=repr(seen))


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


def _ending_of(rank: int, ending: Ending) -> Ending:
    """As torchrun tells of that rank: its own status is always 1."""
    return replace(ending, returncode=dict(_signalled(ending)).get(rank, ending.returncode))
