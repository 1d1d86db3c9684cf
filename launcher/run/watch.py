"""A running full run -> what its pace says, a sentence each, and whether it is ended for that. ``rhythm`` judges."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from launcher.adapter.protocol import resuming
from launcher.machine import host
from launcher.run import health
from launcher.run.health import Look
from launcher.run.recovery import Ended
from launcher.shared import procfs
from launcher.shared.sizes import format_size
from launcher.trial.job import Job

OVER_S = 60.0
"""What processes take is counted over one to two times so long."""


@dataclass(frozen=True, slots=True)
class Found:
    """Something about the pace."""

    what: str
    ends: Ended | None = None
    """Why the run is to be ended; None: it is only told."""


class Pacing:
    """Looks each second at one attempt."""

    def __init__(self, pid: int, job: Job, *, after_a_stall: bool = False) -> None:
        self._job = job
        self._steps = health.Steps(least_s=job.recipe.recover.stall_s, after_a_stall=after_a_stall)
        self._cliffs, self._starved = health.Cliffs(), health.Starved()
        self._fell = self._waited = False
        self._processes = _Processes(pid)

    def look(self, look: Look) -> Iterator[Found]:
        if hangs := self._steps.look(look):
            yield Found(hangs, Ended.STALLED)
        if (cliff := self._cliffs.look(look)) is not None and not self._fell:
            self._fell = True
            yield self._of_cliff(cliff, look)
        if look.busy is not None and not self._waited:
            if (part := self._starved.look(look)) is not None:
                self._waited = True
                yield Found(self._of_waiting(part, look.now))
            self._processes.look(look.now)

    def _of_cliff(self, cliff: tuple[float, float], look: Look) -> Found:
        budget = self._job.budget
        evidence = health.spilled(
            cliff, used_bytes=look.used_bytes, cap_bytes=budget.cap_bytes, budget_bytes=budget.budget_bytes, may_spill=budget.may_spill
        )
        if evidence:
            return Found(f"spills out of the card: {evidence}", Ended.SPILLED)
        memory = f"; {format_size(look.used_bytes)} of {format_size(budget.budget_bytes)} in use" if look.used_bytes else ""
        card = f", the card {look.busy:.0%} busy" if look.busy is not None else ""
        return Found(f"has slowed down: {health.steeper(cliff)}{memory}{card}")

    def _of_waiting(self, part: float, now: float) -> str:
        main, loads = self._processes.loads(now)
        workers = resuming(self._job.adapter).workers()
        return health.waits_for_data(part, workers=workers, loads=loads, main=main, cores=host.cores())


class _Processes:
    """What part of a core the run's processes take, over the last minutes."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seen: deque[tuple[float, dict[int, float]]] = deque(maxlen=2)

    def look(self, now: float) -> None:
        if not self._seen or now - self._seen[-1][0] > OVER_S:
            self._seen.append((now, self._now()))

    def loads(self, now: float) -> tuple[float, list[float]]:
        """The trainer's own, and those of all that it started and that are still there."""
        if not self._seen:
            return 0.0, []
        since, before = self._seen[0]
        seconds = max(1.0, now - since)
        taken = {pid: (busy - before[pid]) / seconds for pid, busy in self._now().items() if pid in before}
        return taken.pop(self._pid, 0.0), list(taken.values())

    def _now(self) -> dict[int, float]:
        return {pid: procfs.busy_seconds(pid, own=True) for pid in (self._pid, *procfs.descendants(self._pid))}
