"""What earlier launches' trials say of this one's rungs, and how the search goes on from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from launcher.history.past_trials import PastTrial
from launcher.ladder import earlier
from launcher.ladder.rungs import Ladder, Wheel, build
from launcher.ladder.search import Tried
from launcher.ladder.verdict import Kind, Verdict
from launcher.shared.sizes import GIB
from tests.helpers import surfaces
from tests.helpers.surfaces import Surface, searched

LADDER = build([Wheel(name="micro_batch", values=(16, 8, 4, 2, 1))], effective_batch=16)


def kept(*trials: Tried, cap: int = 10 * GIB) -> list[PastTrial]:
    past = [earlier.as_past(one, training="mine", device="cpu", cap_bytes=cap) for one in trials]
    return [one for one in past if one is not None]


def fits(index: int, gib: float, cap: int = 10 * GIB) -> Tried:
    by_phase = {"train": gib * GIB / cap, "validate": gib * GIB / cap / 2}
    return Tried(rung=LADDER.rungs[index], verdict=Verdict(kind=Kind.FITS, phase="done", why=""), need=gib * GIB / cap, by_phase=by_phase)


def fails(index: int, gib: float, cap: int = 10 * GIB, kind: Kind = Kind.OUT_OF_MEMORY) -> Tried:
    need = gib * GIB / cap
    return Tried(rung=LADDER.rungs[index], verdict=Verdict(kind=kind, phase="train", why=""), need=need, by_phase={"train": need})


def known(past: Sequence[PastTrial], cap: int = 10 * GIB, *, ladder: Ladder = LADDER) -> Mapping[int, float | None]:
    return {one.rung.index: one.need for one in earlier.on(ladder, past, cap_bytes=cap)}


def test_what_was_measured_is_a_part_of_the_cap_of_now() -> None:
    past = kept(fits(2, 8.0))
    assert known(past) == {2: pytest.approx(0.8)} and known(past, 5 * GIB) == {2: pytest.approx(1.6)}
    (seen,) = earlier.on(LADDER, past, cap_bytes=5 * GIB)
    assert seen.verdict.fits and seen.by_phase == {"train": pytest.approx(1.6), "validate": pytest.approx(0.8)}


def test_a_failure_bounds_nothing_where_there_is_more_room_than_it_had() -> None:
    past = kept(fails(1, 11.0))
    assert known(past) == {1: pytest.approx(1.1)} and known(past, 20 * GIB) == {}


def test_what_is_no_measurement_is_not_kept() -> None:
    assert kept(fails(0, 11.0, kind=Kind.CRASHED), Tried(rung=LADDER.asked, verdict=fails(0, 1.0).verdict)) == []


def test_a_rung_that_this_ladder_has_not_is_left_out() -> None:
    shorter = build([Wheel(name="micro_batch", values=(16, 8, 4))], effective_batch=16)
    assert known(kept(fits(3, 8.0)), ladder=shorter) == {}


@pytest.mark.parametrize("cap", [10 * GIB, 7 * GIB, 16 * GIB])
def test_a_launch_with_the_same_needs_makes_no_trial_but_the_proof_whatever_its_budget(cap: int) -> None:
    """Without it, by its own trials alone: three to five."""

    def surface(of: int) -> Surface:
        needs = {rung.index: dict.fromkeys(surfaces.PHASES, (2 * GIB + 1.5 * GIB * rung.micro_batch) / of) for rung in LADDER.rungs}
        return Surface(LADDER, needs)

    past = kept(*searched(surface(10 * GIB), "predicted").history)
    found, walked = searched(surface(cap), "predicted", earlier.on(LADDER, past, cap_bytes=cap)), searched(surface(cap), "walk")
    assert found.chosen == walked.chosen and found.trials == 2
