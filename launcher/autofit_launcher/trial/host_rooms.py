"""Holds what a run will need of its machine beside the device against what there is. Pure.

What the trial took was measured from outside; what its loaders hold ahead once their queues are full is added, since a trial's may not have
been.
"""

from __future__ import annotations

from collections.abc import Iterable

from autofit_launcher.history.records import RoomRecord
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.machine.host_meter import HostUse
from autofit_launcher.shared.memory_failures import Source
from autofit_launcher.shared.report import HELD_AHEAD, HOST_BESIDE, HOST_GROWTH, TrialReport
from autofit_launcher.shared.sizes import format_size

MEMORY, SHARED, DISK = "host memory", "/dev/shm", "disk"
_FEWER = "fewer data loader workers or less prefetched"
_CURES: dict[str, tuple[Source, str]] = {
    MEMORY: ("host_memory", f"{_FEWER}, a data set cached on the disk and not in memory, or a higher limit of the container or job"),
    SHARED: ("shared_memory", f"{_FEWER}, or a larger /dev/shm (docker run --shm-size=8g, or --ipc=host)"),
    DISK: ("disk", "fewer checkpoints kept, or a larger disk (run.root)"),
}


def rooms(use: HostUse, report: TrialReport, *, headroom: float, saved: int | None = None) -> list[RoomRecord]:
    """Returns each room with the need of the run and what there is for it. ``saved``: bytes on its disk that the run's saved files will
    take at once; None where nobody knows."""
    mapped = min(use.shared_mapped, use.shared_taken)
    shared = max(mapped, int(report.facts.get(HELD_AHEAD, 0)))
    there = None if use.shared_before is None else use.shared_before - max(0, use.shared_taken - shared)  # what others took meanwhile
    needed = use.memory_bytes + shared - mapped + _unseen(report)
    found = [
        RoomRecord(name=MEMORY, needed=needed, there=use.memory_there, headroom=headroom),
        RoomRecord(name=SHARED, needed=shared, there=there, headroom=headroom),
    ]
    return found if saved is None else [*found, RoomRecord(name=DISK, needed=saved, there=use.disk_there, headroom=headroom)]


def _unseen(report: TrialReport) -> int:
    """Host memory that the run will have beside what its trial had."""
    return int(report.facts.get(HOST_BESIDE, 0) + report.facts.get(HOST_GROWTH, 0) * report.batches_left)


def short_of(found: Iterable[RoomRecord]) -> RoomRecord | None:
    """Returns the first room that is too small; None if each has enough."""
    return next(filter(is_short, found), None)


def today(found: Iterable[RoomRecord], use: HostUse) -> list[RoomRecord]:
    """The rooms of an earlier trial with what there is now. ``use``: of a meter that has not begun."""
    now = {MEMORY: use.memory_there, SHARED: use.shared_before, DISK: use.disk_there}
    return [room.model_copy(update={"there": room.there and now.get(room.name)}) for room in found]


def is_short(room: RoomRecord) -> bool:
    return room.there is not None and room.needed > room.there * (1 - room.headroom)


def verdict_on(room: RoomRecord, fitted: Verdict) -> Verdict:
    """The verdict on a trial that fits otherwise, for want of that room."""
    (source, cure), needed, there = _CURES[room.name], format_size(room.needed), format_size(room.there or 0)
    why = f"the run needs {needed} of {room.name}, and {there} are there for it ({room.headroom:.0%} kept free): {cure}"
    return Verdict(kind=Kind.OUT_OF_MEMORY, phase=fitted.phase, why=why, source=source, peak_bytes=fitted.peak_bytes, evidence=why)
