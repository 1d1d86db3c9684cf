"""The run's need of what a machine has beside its device, held against what there is."""

from __future__ import annotations

from dataclasses import replace

from launcher.history.records import RoomRecord
from launcher.ladder.verdict import Kind, Verdict
from launcher.machine.host_meter import HostUse
from launcher.shared.memory_failures import OF_MACHINE
from launcher.shared.report import HELD_AHEAD, HOST_BESIDE, HOST_GROWTH, PAGE_LOCKED, THREADS, TrialReport
from launcher.shared.sizes import GIB, MIB
from launcher.trial import host_rooms

USE = HostUse(
    memory_bytes=4 * GIB, memory_there=16 * GIB, shared_before=64 * MIB, shared_taken=8 * MIB, shared_mapped=20 * MIB, files=100,
    files_beside=100, files_there=1024, tasks=30, tasks_there=64,
)  # fmt: skip
FITS = Verdict(kind=Kind.FITS, phase="done", why="fits")


def found(use: HostUse, *ahead: tuple[int, int], headroom: float = 0.1) -> dict[str, RoomRecord]:
    reports = [TrialReport(facts={HELD_AHEAD: {"bytes": size, "storages": storages}}) for size, storages in ahead]
    return {room.name: room for room in host_rooms.rooms(use, reports or [TrialReport()], headroom=headroom)}


def test_queues_that_a_trial_has_not_filled_count_as_full() -> None:
    rooms = found(USE, (48 * MIB, 40))
    assert rooms["/dev/shm"].needed == 48 * MIB, "8 of them were seen"
    assert rooms["host memory"].needed == 4 * GIB + 40 * MIB, "what was seen of them is in what was measured"
    assert rooms["open files"].needed == 140
    on_their_way = replace(USE, files=100, files_beside=70)
    assert found(on_their_way, (48 * MIB, 40))["open files"].needed == 110, "30 of those that were seen are among the 40"
    assert found(on_their_way, (48 * MIB, 20))["open files"].needed == 100, "as many were seen"
    assert host_rooms.short_of(rooms.values()) is None


def test_what_every_rank_holds_beside_its_card_and_nobody_sees_from_outside_counts_against_the_one_machine() -> None:
    reports = [TrialReport(facts={PAGE_LOCKED: 6 * GIB}), TrialReport(facts={PAGE_LOCKED: 6 * GIB, HOST_BESIDE: GIB})]
    rooms = host_rooms.rooms(USE, reports, headroom=0.1)
    short = host_rooms.short_of(rooms)
    assert short is not None and (short.name, short.needed) == (host_rooms.MEMORY, 17 * GIB)


def test_ranks_share_the_machine_and_each_has_files_of_its_own() -> None:
    rooms = found(USE, (24 * MIB, 40), (24 * MIB, 50))
    assert (rooms["/dev/shm"].needed, rooms["open files"].needed) == (48 * MIB, 150)


def test_what_others_take_of_dev_shm_is_not_the_trials_and_not_there_for_it() -> None:
    room = found(replace(USE, shared_taken=40 * MIB), (30 * MIB, 4))["/dev/shm"]
    assert (room.needed, room.there, room.others) == (30 * MIB, 54 * MIB, 10 * MIB)
    verdict = host_rooms.verdict_on(room.model_copy(update={"needed": 50 * MIB}), FITS)
    assert verdict.why.startswith("the run needs 50 MiB of /dev/shm, and 54 MiB are there for it, others having taken 10 MiB meanwhile")


def test_each_has_its_headroom_and_the_first_that_is_short_is_the_verdict() -> None:
    short = replace(USE, memory_there=int(4.2 * GIB))
    rooms = found(short)
    room = host_rooms.short_of(rooms.values())
    assert room is not None and room.name == "host memory"
    verdict = host_rooms.verdict_on(room, FITS)
    assert verdict.kind is Kind.OUT_OF_MEMORY and verdict.source == "host_memory" and "fewer data loader workers" in verdict.why
    assert host_rooms.short_of(found(short, headroom=0.0).values()) is None
    for name, source in (("/dev/shm", "shared_memory"), ("open files", "files"), ("processes", "processes")):
        assert host_rooms.verdict_on(rooms[name], FITS).source == source in OF_MACHINE


def test_where_there_is_little_a_few_more_stay_free_than_the_headroom_says() -> None:
    """A thread that is soon gone is seen by none who looks now and then."""
    room = RoomRecord(name=host_rooms.TASKS, needed=8, there=9, headroom=0.1)
    assert host_rooms.is_short(room) and not host_rooms.is_short(room.model_copy(update={"there": 12}))
    assert "(4 kept free)" in host_rooms.verdict_on(room, FITS).why
    assert not host_rooms.is_short(room.model_copy(update={"headroom": 0.0}))


def test_a_trial_that_could_start_no_process_is_one_of_memory_where_the_limit_was_reached() -> None:
    words = "BlockingIOError: [Errno 11] Resource temporarily unavailable"
    room = host_rooms.no_process(found(replace(USE, tasks=62)).values(), words)
    assert room is not None and host_rooms.words(room) == ("65", "64")
    assert host_rooms.no_process(found(replace(USE, tasks=40)).values(), words) is not None, "threads that are soon gone are not seen"
    assert host_rooms.no_process(found(USE).values(), words) is None, "there was room: it is of something else"
    assert host_rooms.no_process(found(replace(USE, tasks=62)).values(), "ZeroDivisionError") is None
    for tasks, of_threads in ((10, True), (7, False)):
        seen = host_rooms.no_process(found(replace(USE, tasks=tasks)).values(), "RuntimeError: can't start new thread")
        assert (seen is not None) == of_threads


def test_a_limit_that_nobody_tells_is_none() -> None:
    rooms = found(HostUse(memory_bytes=GIB))
    assert host_rooms.short_of(rooms.values()) is None
    assert host_rooms.words(rooms["host memory"]) == ("1.0 GiB", "no limit")


def test_threads_that_were_gone_before_anybody_looked_count() -> None:
    use = replace(USE, tasks=8, tasks_of={7: 6, 9: 2}, tasks_below={7: 2}, tasks_there=13)
    for most, below, needed in ((6, 2, 8), (11, 1, 13), (6, 9, 15), (7, 3, 10)):
        reports = [TrialReport(facts={THREADS: {"process": 7, "most": most, "below": below}})]
        room = {one.name: one for one in host_rooms.rooms(use, reports, headroom=0.1)}["processes"]
        assert (room.needed, host_rooms.is_short(room)) == (needed, needed > 9)


def test_workers_that_were_there_at_once_count_with_their_memory_though_fewer_were_seen() -> None:
    use = replace(USE, unshared_of={7: 4 * GIB, 8: 2**20, 9: 3 * 2**20}, processes_below={7: 2})
    for children, more in ((2, 0), (8, 6 * 3 * 2**20)):
        report = TrialReport(facts={THREADS: {"process": 7, "children": children}})
        assert host_rooms.rooms(use, [report], headroom=0.1)[0].needed - host_rooms.rooms(use, [], headroom=0.1)[0].needed == more


def test_what_loader_workers_come_to_cache_counts() -> None:
    report = TrialReport(facts={HELD_AHEAD: {"bytes": 0, "storages": 0, "cached": GIB}})
    assert host_rooms.rooms(USE, [report], headroom=0.1)[0].needed - host_rooms.rooms(USE, [], headroom=0.1)[0].needed == GIB


def test_predictions_of_the_whole_validation_set_count_beside_a_card() -> None:
    moved = TrialReport(validation_batches=4, validation_batches_total=1004, facts={HOST_BESIDE: GIB, HOST_GROWTH: 2**20})
    before, with_all = (host_rooms.rooms(USE, [one], headroom=0.1)[0].needed for one in (TrialReport(), moved))
    assert with_all - before == GIB + 1000 * 2**20


def test_a_limit_that_cannot_be_read_is_told_beside_what_the_machine_has() -> None:
    rooms = found(replace(USE, tasks_there=None, unread=frozenset({"memory", "pids"})))
    assert host_rooms.words(rooms["host memory"]) == ("4.0 GiB", "16.0 GiB (a container's limit can't be read)")
    assert host_rooms.words(rooms["processes"]) == ("30", "no limit (a container's limit can't be read)")
    assert "can't be read" not in " ".join(host_rooms.words(rooms["open files"]))


def test_a_disk_that_is_too_small_for_what_the_run_keeps_is_a_verdict() -> None:
    disk = replace(USE, disk_there=10 * GIB)
    assert "disk" not in found(disk), "nobody knows what the run saves"
    room = host_rooms.short_of(host_rooms.rooms(disk, [TrialReport()], headroom=0.1, saved=9 * GIB + 1))
    assert room is not None and host_rooms.short_of(host_rooms.rooms(disk, [TrialReport()], headroom=0.1, saved=9 * GIB)) is None
    verdict = host_rooms.verdict_on(room, FITS)
    assert verdict.source == "disk" and verdict.why.startswith("the run needs 9.0 GiB of disk, and 10.0 GiB are there for it")


def test_an_earlier_trials_need_is_held_against_what_there_is_today() -> None:
    today = host_rooms.today(found(USE).values(), replace(USE, memory_there=2 * GIB, shared_before=None))
    assert [room.there for room in today][:2] == [2 * GIB, None]
    assert (short := host_rooms.short_of(today)) is not None and short.name == "host memory"
