"""What a trial's run will need of what its machine has beside the device, held against what there is. Pure, but for the disk's quota.

What the trial took was measured from outside; what its loaders hold ahead once their queues are full is added, since a trial's may not have
been.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from launcher.history.records import RoomRecord
from launcher.ladder.verdict import Kind, Verdict
from launcher.machine import host
from launcher.machine.host_meter import HostUse
from launcher.shared.memory_failures import Source
from launcher.shared.report import HELD_AHEAD, HOST_BESIDE, HOST_GROWTH, PAGE_LOCKED, THREADS, TrialReport
from launcher.shared.sizes import MIB, format_size

MEMORY, SHARED, FILES, TASKS, DISK = "host memory", "/dev/shm", "open files", "processes", "disk"
_FEWER = "fewer data loader workers or less prefetched"
_CURES: dict[str, tuple[Source, str]] = {
    MEMORY: ("host_memory", f"{_FEWER}, a data set cached on the disk and not in memory, or a higher limit of the container or job"),
    SHARED: ("shared_memory", f"{_FEWER}, or a larger /dev/shm (docker run --shm-size=8g, or --ipc=host)"),
    FILES: ("files", f"a higher limit (ulimit -n), or {_FEWER}"),
    TASKS: (
        "processes",
        "a higher limit (ulimit -u; docker run --pids-limit; DefaultTasksMax of systemd), or fewer data loader workers and threads",
    ),
    DISK: ("disk", "fewer checkpoints kept, or a larger disk (run.root)"),
}
LEAST = {MEMORY: 16 * MIB, SHARED: MIB, FILES: 4, TASKS: 4, DISK: 16 * MIB}
"""At least so much of each stays free, unless the headroom is 0: files and threads of workers that are soon gone are seen by none who looks
now and then, queues have locks in /dev/shm, and a run writes figures and logs beside its checkpoints."""


def rooms(use: HostUse, reports: Sequence[TrialReport], *, headroom: float, saved: int | None = None) -> list[RoomRecord]:
    """Each of them with the need of the run and what there is for it. ``reports``: of all processes that trained. ``saved``: bytes that the
    run will have on its disk at once of what it saves; None where nobody knows."""
    held = [fact for report in reports if isinstance(fact := report.facts.get(HELD_AHEAD), dict)]
    ahead = sum(int(fact.get("bytes", 0)) for fact in held)
    storages = max((int(fact.get("storages", 0)) for fact in held), default=0)
    beside = sum(int(report.facts.get(name, 0)) for report in reports for name in (HOST_BESIDE, PAGE_LOCKED)) + sum(
        int(report.facts.get(HOST_GROWTH, 0)) * max(0, report.validation_batches_total - report.validation_batches) for report in reports
    )
    threads = [fact for report in reports if isinstance(fact := report.facts.get(THREADS), dict)]
    unseen = sum(
        max(0, int(fact.get(name, 0)) - seen.get(int(fact.get("process", 0)), 0))
        for fact in threads
        for name, seen in (("most", use.tasks_of), ("below", use.tasks_below))
    )
    beside += _of_workers(use, threads) + sum(int(fact.get("cached", 0)) for fact in held)
    mapped = min(use.shared_mapped, use.shared_taken)
    shared = max(mapped, ahead)
    others = max(0, use.shared_taken - shared)
    there = None if use.shared_before is None else max(0, use.shared_before - others)
    found = (
        RoomRecord(
            name=MEMORY, needed=use.memory_bytes + shared - mapped + beside, there=use.memory_there, headroom=headroom,
            unread="memory" in use.unread,
        ),
        RoomRecord(name=SHARED, needed=shared, there=there, headroom=headroom, others=others),
        RoomRecord(name=FILES, needed=max(use.files, use.files_beside + storages), there=use.files_there, headroom=headroom),
        RoomRecord(name=TASKS, needed=use.tasks + unseen, there=use.tasks_there, headroom=headroom, unread="pids" in use.unread),
    )  # fmt: skip
    disk = [RoomRecord(name=DISK, needed=saved, there=use.disk_there, headroom=headroom)] if saved is not None else []
    return [*found, *disk]


def _of_workers(use: HostUse, told: Sequence[Mapping[str, int]]) -> int:
    """Memory of processes that a trainer had at once, beside those that were seen at once: workers of a short validation."""
    trainers = {fact.get("process", 0) for fact in told}
    each = max((size for pid, size in use.unshared_of.items() if pid not in trainers), default=0)
    return each * sum(max(0, fact.get("children", 0) - use.processes_below.get(fact.get("process", 0), 0)) for fact in told)


def short_of(found: Iterable[RoomRecord], *places: Path) -> RoomRecord | None:
    """The first of them that is too small; None if each has room. ``places``: where the run saves, in which a quota may let less be taken
    than is free, and whatever else will make room there."""
    for room in found:
        if room.name == DISK and places and not is_short(room):
            held = sum(map(host.disk_taken, places))
            wanted = max(0, room.needed + max(int(room.needed * room.headroom / (1 - room.headroom)) + 1, _least(room)) - held)
            taken = host.disk_takes(places[0], wanted)
            room = room if taken == wanted else room.model_copy(update={"there": held + taken})
        if is_short(room):
            return room
    return None


def no_process(found: Iterable[RoomRecord], words: str) -> RoomRecord | None:
    """The number of processes, if a trial failed with words that may have other causes, and had not far fewer than there are; else None.

    What is started at once and soon gone is seen by none who looks now and then, so one more than there are was needed.
    """
    tasks = next((room for room in found if room.name == TASKS), None)
    times = next((times for times, pattern in _NO_PROCESS.items() if pattern.search(words)), 0)
    if tasks is None or not tasks.there or tasks.there > times * tasks.needed:
        return None
    return tasks.model_copy(update={"needed": max(tasks.needed, tasks.there + 1)})


_NO_PROCESS = {8: re.compile(r"can't start new thread|pthread_create"), 2: re.compile(r"Resource temporarily unavailable")}
"""By how many times fewer than there are were seen at most. A socket may be unavailable, too; a thread finds no room, or may not be."""


def today(found: Iterable[RoomRecord], use: HostUse) -> list[RoomRecord]:
    """The rooms of an earlier trial with what there is now. ``use``: of a meter that has not begun."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    now = {MEMORY: use.memory_there, SHARED: use.shared_before, FILES: files, TASKS: use.tasks_there, DISK: use.disk_there}
    return [room.model_copy(update={"there": room.there and now[room.name], "others": 0}) for room in found]


def is_short(room: RoomRecord) -> bool:
    return room.there is not None and room.there >= 0 and room.needed > room.there - max(room.there * room.headroom, _least(room))


def _least(room: RoomRecord) -> int:
    return LEAST.get(room.name, 0) if room.headroom else 0


def kept_free(room: RoomRecord) -> str:
    """How much of it must stay free, for people."""
    if room.there is None or _least(room) <= room.there * room.headroom:
        return f"{room.headroom:.0%}"
    return str(_least(room)) if room.name in (FILES, TASKS) else format_size(_least(room))


def words(room: RoomRecord) -> tuple[str, str]:
    """(what is needed, what there is), for people."""
    size = str if room.name in (FILES, TASKS) else format_size
    there = "no limit" if room.there is None else size(room.there)
    return size(room.needed), f"{there} (a container's limit can't be read)" if room.unread else there


def verdict_on(room: RoomRecord, fitted: Verdict) -> Verdict:
    """The verdict on a trial that fits otherwise, for want of that room."""
    (source, cure), (needed, there) = _CURES[room.name], words(room)
    others = f", others having taken {format_size(room.others)} meanwhile" if room.others >= MIB else ""
    why = f"the run needs {needed} of {room.name}, and {there} are there for it{others} ({kept_free(room)} kept free): {cure}"
    return Verdict(kind=Kind.OUT_OF_MEMORY, phase=fitted.phase, why=why, source=source, peak_bytes=fitted.peak_bytes, evidence=why)
