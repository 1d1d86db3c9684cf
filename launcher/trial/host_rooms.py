"""What a trial's run will need of each of its machine's memories, held against what there is. Pure.

The machine's memories beside the card: host memory, /dev/shm, open files, processes. What the trial took was measured from outside; what
its loaders hold ahead once their queues are full is added, since a trial's may not have been.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from launcher.history.records import RoomRecord
from launcher.ladder.verdict import Kind, Verdict
from launcher.machine.host_meter import HostUse
from launcher.shared.memory_failures import Source
from launcher.shared.report import HELD_AHEAD, HOST_BESIDE, TrialReport
from launcher.shared.sizes import MIB, format_size


@dataclass(frozen=True, kw_only=True, slots=True)
class _What:
    """One of the memories, and what helps where it is too small."""

    name: str
    source: Source
    words: Callable[[int], str]
    cure: str


_WHAT = (
    _What(
        name="host memory", source="host_memory", words=format_size,
        cure="fewer data loader workers or less prefetched, a data set cached on the disk and not in memory, or a higher limit of the "
        "container or job",
    ),
    _What(
        name="/dev/shm", source="shared_memory", words=format_size,
        cure="fewer data loader workers or less prefetched, or a larger /dev/shm (docker run --shm-size=8g, or --ipc=host)",
    ),
    _What(name="open files", source="files", words=str, cure="a higher limit (ulimit -n), or fewer data loader workers"),
    _What(
        name="processes", source="processes", words=str,
        cure="a higher limit (ulimit -u; docker run --pids-limit), or fewer data loader workers and threads (OMP_NUM_THREADS)",
    ),
)  # fmt: skip
_BY_NAME = {one.name: one for one in _WHAT}


def rooms(use: HostUse, reports: Sequence[TrialReport], *, headroom: float) -> list[RoomRecord]:
    """Each memory with the need of the run and what there is for it. ``reports``: of all processes that trained."""
    held = [fact for report in reports if isinstance(fact := report.facts.get(HELD_AHEAD), dict)]
    ahead = sum(int(fact.get("bytes", 0)) for fact in held)
    storages = max((int(fact.get("storages", 0)) for fact in held), default=0)
    beside = sum(int(report.facts.get(HOST_BESIDE, 0)) for report in reports)
    mapped = min(use.shared_mapped, use.shared_taken)
    shared = max(mapped, ahead)
    others = max(0, use.shared_taken - shared)
    there = None if use.shared_before is None else max(0, use.shared_before - others)
    found = (
        (use.memory_bytes + shared - mapped + beside, use.memory_there, 0),
        (shared, there, others),
        (use.files + storages, use.files_there, 0),
        (use.tasks, use.tasks_there, 0),
    )
    return [
        RoomRecord(name=what.name, needed=needed, there=there, headroom=headroom, **({"others": others} if others else {}))
        for what, (needed, there, others) in zip(_WHAT, found, strict=True)
    ]


def short_of(found: Iterable[RoomRecord]) -> RoomRecord | None:
    """The first of them that is too small; None if each has room."""
    return next((room for room in found if is_short(room)), None)


def today(found: Iterable[RoomRecord], use: HostUse) -> list[RoomRecord]:
    """The rooms of an earlier trial with what there is now. ``use``: of a meter that has not begun."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    now = (use.memory_there, use.shared_before, None if files == resource.RLIM_INFINITY else files, use.tasks_there)
    there = dict(zip(_BY_NAME, now, strict=True))
    return [room.model_copy(update={"there": room.there and there[room.name], "others": 0}) for room in found]


def is_short(room: RoomRecord) -> bool:
    return room.there is not None and room.needed > room.there * (1 - room.headroom)


def words(room: RoomRecord) -> tuple[str, str]:
    """(what is needed, what there is), for people."""
    size = _BY_NAME[room.name].words
    return size(room.needed), "no limit" if room.there is None else size(room.there)


def verdict_on(room: RoomRecord, fitted: Verdict) -> Verdict:
    """The verdict on a trial that fits otherwise, for want of that room."""
    what, (needed, there) = _BY_NAME[room.name], words(room)
    others = f", others having taken {what.words(room.others)} meanwhile" if room.others >= MIB else ""
    why = f"the run needs {needed} of {room.name}, and {there} are there for it{others} ({room.headroom:.0%} kept free): {what.cure}"
    return Verdict(kind=Kind.OUT_OF_MEMORY, phase=fitted.phase, why=why, source=what.source, peak_bytes=fitted.peak_bytes, evidence=why)
