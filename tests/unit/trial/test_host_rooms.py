"""The run's need of what a machine has beside its device, held against what there is."""

from __future__ import annotations

from dataclasses import replace

from autofit_launcher.common.memory_failures import OF_MACHINE
from autofit_launcher.common.report import HELD_AHEAD, HOST_BESIDE, HOST_GROWTH, TrialReport
from autofit_launcher.common.sizes import GIB, MIB
from autofit_launcher.history.records import RoomRecord
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.machine.meter import HostUse
from autofit_launcher.trial import judge

USE = HostUse(memory_bytes=4 * GIB, memory_there=16 * GIB, shared_before=64 * MIB, shared_taken=8 * MIB, shared_mapped=20 * MIB)
FITS = Verdict(kind=Kind.FITS, phase="done", why="fits")


def found(use: HostUse, ahead: int = 0, *, headroom: float = 0.1) -> dict[str, RoomRecord]:
    return {room.name: room for room in judge.rooms(use, TrialReport(facts={HELD_AHEAD: ahead}), headroom=headroom)}


def test_queues_that_a_trial_has_not_filled_count_as_full() -> None:
    rooms = found(USE, 48 * MIB)
    assert rooms["/dev/shm"].needed == 48 * MIB, "8 of them were seen"
    assert rooms["host memory"].needed == 4 * GIB + 40 * MIB, "what was seen of them is in what was measured"
    assert judge.short_of(rooms.values()) is None


def test_what_others_take_of_dev_shm_is_not_the_trials_and_not_there_for_it() -> None:
    room = found(replace(USE, shared_taken=40 * MIB), 30 * MIB)["/dev/shm"]
    assert (room.needed, room.there) == (30 * MIB, 54 * MIB), "others have taken 10 meanwhile"
    verdict = judge.verdict_on(room.model_copy(update={"needed": 50 * MIB}), FITS)
    assert verdict.why.startswith("the run needs 50 MiB of /dev/shm, and 54 MiB are there for it (10% kept free)")


def test_each_has_its_headroom_and_the_first_that_is_short_is_the_verdict() -> None:
    short = replace(USE, memory_there=int(4.2 * GIB))
    rooms = found(short)
    room = judge.short_of(rooms.values())
    assert room is not None and room.name == "host memory"
    verdict = judge.verdict_on(room, FITS)
    assert verdict.kind is Kind.OUT_OF_MEMORY and verdict.source == "host_memory" and "fewer data loader workers" in verdict.why
    assert judge.short_of(found(short, headroom=0.0).values()) is None
    assert judge.verdict_on(rooms["/dev/shm"], FITS).source == "shared_memory" in OF_MACHINE


def test_predictions_of_the_whole_validation_set_count_beside_a_card() -> None:
    moved = TrialReport(validation_batches=4, validation_batches_total=1004, facts={HOST_BESIDE: GIB, HOST_GROWTH: 2**20})
    before, with_all = (judge.rooms(USE, one, headroom=0.1)[0].needed for one in (TrialReport(), moved))
    assert with_all - before == GIB + 1000 * 2**20


def test_a_disk_that_is_too_small_for_what_the_run_keeps_is_a_verdict() -> None:
    disk = replace(USE, disk_there=10 * GIB)
    assert "disk" not in found(disk), "nobody knows what the run saves"
    room = judge.short_of(judge.rooms(disk, TrialReport(), headroom=0.1, saved=9 * GIB + 1))
    assert room is not None and judge.short_of(judge.rooms(disk, TrialReport(), headroom=0.1, saved=9 * GIB)) is None
    verdict = judge.verdict_on(room, FITS)
    assert verdict.source == "disk" and verdict.why.startswith("the run needs 9.0 GiB of disk, and 10.0 GiB are there for it")


def test_an_earlier_trials_need_is_held_against_what_there_is_today() -> None:
    today = judge.today(found(USE).values(), replace(USE, memory_there=2 * GIB, shared_before=None))
    assert [room.there for room in today][:2] == [2 * GIB, None]
    assert (short := judge.short_of(today)) is not None and short.name == "host memory"
