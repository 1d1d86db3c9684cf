"""What earlier launches' trials measured, and what a launch makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from launcher.forecast import past_trials
from launcher.ladder import extrapolation, search
from launcher.ladder.rungs import Ladder, Wheel, build
from launcher.ladder.search import Tried
from launcher.ladder.verdict import Kind, Verdict
from launcher.shared.sizes import GIB
from launcher.trainers.suite import cpu_budget
from launcher.trial.job import Job
from tests.helpers import surfaces
from tests.helpers.surfaces import Surface, searched

LADDER = build([Wheel(name="micro_batch", values=(16, 8, 4, 2, 1))], effective_batch=16)


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def job(cap: int = 10 * GIB, *, ladder: Ladder = LADDER, name: str = "mine") -> Job:
    made: Any = SimpleNamespace(
        training=f"{name} (script)",
        ladder=ladder,
        budget=replace(cpu_budget(), cap_bytes=cap),
    )
    return made  # type: ignore[no-any-return]


def fits(index: int, gib: float, cap: int = 10 * GIB) -> Tried:
    by_phase = {"train": gib * GIB / cap, "validate": gib * GIB / cap / 2}
    return Tried(rung=LADDER.rungs[index], verdict=Verdict(kind=Kind.FITS, phase="done", why=""), need=gib * GIB / cap, by_phase=by_phase)


def fails(index: int, gib: float, cap: int = 10 * GIB, kind: Kind = Kind.OUT_OF_MEMORY) -> Tried:
    need = gib * GIB / cap
    return Tried(rung=LADDER.rungs[index], verdict=Verdict(kind=kind, phase="train", why=""), need=need, by_phase={"train": need})


def known(of: Job) -> Mapping[int, float | None]:
    return {one.rung.index: one.need for one in past_trials.measured(of)}


def test_what_was_measured_is_a_part_of_the_cap_of_now() -> None:
    past_trials.keep(job(), fits(2, 8.0))
    assert known(job()) == {2: pytest.approx(0.8)} and known(job(5 * GIB)) == {2: pytest.approx(1.6)}
    (seen,) = past_trials.measured(job(5 * GIB))
    assert seen.fits and seen.by_phase == {"train": pytest.approx(1.6), "validate": pytest.approx(0.8)}


def test_of_each_rung_the_last_trial_counts() -> None:
    for gib in (8.0, 6.0):
        past_trials.keep(job(), fits(2, gib))
    assert known(job()) == {2: pytest.approx(0.6)}


def test_a_failure_bounds_nothing_where_there_is_more_room_than_it_had() -> None:
    past_trials.keep(job(), fails(1, 11.0))
    assert known(job()) == {1: pytest.approx(1.1)} and known(job(20 * GIB)) == {}


def test_what_is_no_measurement_another_training_and_another_folder_tell_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    past_trials.keep(job(), fails(0, 11.0, kind=Kind.CRASHED))
    past_trials.keep(job(name="other"), fits(0, 4.0))
    assert known(job()) == {}
    past_trials.keep(job(), fits(2, 8.0))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert known(job()) == {}


def test_a_rung_that_this_ladder_has_not_is_left_out() -> None:
    past_trials.keep(job(), fits(3, 8.0))
    shorter = build([Wheel(name="micro_batch", values=(16, 8, 4))], effective_batch=16)
    assert known(job(ladder=shorter)) == {}


def test_a_history_that_cannot_be_used_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    past_trials.keep(job(), fits(2, 8.0))
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    past_trials.keep(job(), fits(2, 8.0))
    assert known(job()) == {}


@pytest.mark.parametrize("cap", [10 * GIB, 7 * GIB, 16 * GIB])
def test_a_launch_with_the_same_needs_makes_no_trial_but_the_proof_whatever_its_budget(cap: int) -> None:
    """Without it, by trials alone: four or five."""

    def surface(of: int) -> Surface:
        needs = {rung.index: dict.fromkeys(surfaces.PHASES, (2 * GIB + 1.5 * GIB * rung.micro_batch) / of) for rung in LADDER.rungs}
        return Surface(LADDER, needs)

    for tried in searched(surface(10 * GIB), "predicted").history:
        past_trials.keep(job(), tried)
    expected = extrapolation.needs(LADDER.rungs, past_trials.measured(job(cap)))
    found, walked = searched(surface(cap), "predicted", expected), searched(surface(cap), "walk")
    assert found.chosen == walked.chosen and found.trials == 2


def test_the_trials_of_a_plan_lead_the_run_that_follows() -> None:
    """A sixteenth and a quarter of the asked micro-batch were tried with all the room there is."""
    for index in (4, 2):
        past_trials.keep(job(100 * GIB), fits(index, 2 + 1.5 * LADDER.rungs[index].micro_batch, cap=100 * GIB))
    expected = extrapolation.needs(LADDER.rungs, past_trials.measured(job(15 * GIB)))
    move = search.next_move(LADDER, [], policy="predicted", predicted=expected)
    assert isinstance(move, search.Try) and move.rung.micro_batch == 16 and expected[1] is not None and expected[1] < 1 < (expected[0] or 0)
