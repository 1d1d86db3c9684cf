"""The search may skip, never guess: what it chooses equals what trying every rung finds."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autofit_launcher.ladder.rungs import Ladder, Rung, Wheel, build
from autofit_launcher.ladder.search import (
    Chosen,
    NothingLeft,
    Tried,
    Try,
    dominated_by,
    estimates,
    load,
    next_move,
)
from autofit_launcher.ladder.verdict import Kind, Verdict
from tests.helpers import surfaces
from tests.helpers.surfaces import Searched, Surface, searched


def verdict(kind: Kind, phase: str = "train", source: str | None = "allocator") -> Verdict:
    return Verdict(kind=kind, phase=phase, why="", source=source)  # type: ignore[arg-type]


OOM, FITS = verdict(Kind.OUT_OF_MEMORY), verdict(Kind.FITS, "done", None)


def small() -> Ladder:
    wheels = [
        Wheel(name="val_micro_batch", values=(8, 4), acts_in="validation"),
        Wheel(name="micro_batch", values=(8, 4, 2)),
        Wheel(name="image_size", values=(640, 320)),
    ]
    return build(wheels, effective_batch=8)


def test_a_crash_a_stall_and_a_vacuous_trial_stop_the_walk_at_once() -> None:
    ladder = small()
    for kind in (Kind.CRASHED, Kind.STALLED, Kind.VACUOUS):
        assert next_move(ladder, [Tried(rung=ladder.rungs[0], verdict=verdict(kind))]) == NothingLeft(why="not_memory")


def of_a_script() -> Ladder:
    """As a script's: validation's batch is the fastest wheel."""
    wheels = [
        Wheel(name="val_micro_batch", values=(8, 4, 2), acts_in="validation"),
        Wheel(name="micro_batch", values=(32, 16, 8, 4, 2, 1)),
        Wheel(name="segment", values=(64, 48, 32)),
    ]
    return build(wheels, effective_batch=32)


MODELS = build([Wheel(name="micro_batch", values=(64, 32, 16)), Wheel(name="model", values=("l", "s"))], effective_batch=64)
ALTERED = verdict(Kind.ALTERED)
FAULTY = replace(verdict(Kind.ALTERED, source=None), otherwise=("accumulation",))


@pytest.mark.parametrize(("ladder", "tried", "following"), [
    (small(), {0: OOM}, (8, 4, 640)),
    (small(), {0: verdict(Kind.OUT_OF_MEMORY, "validate")}, (4, 8, 640)),
    (small(), {3: ALTERED}, (8, 8, 640)),
    (small(), {0: verdict(Kind.CARD_TAKEN, "train", None)}, (8, 8, 640)),
    (MODELS, {0: replace(ALTERED, source=None)}, (32, "l")),
    (MODELS, {0: OOM, 1: verdict(Kind.ALTERED, source="accumulation")}, (64, "s")),
    (of_a_script(), {0: OOM, 3: FAULTY}, (8, 8, 64)),
], ids=["training isn't cured by a wheel of validation", "validation turns its own wheel first", "altered dominates nothing",
        "a taken card is tried again", "it runs otherwise",
        "a batch that can't be put together", "what runs otherwise does so at every batch of validation"])  # fmt: skip
def test_what_is_tried_after(ladder: Ladder, tried: dict[int, Verdict], following: tuple[object, ...]) -> None:
    move = next_move(ladder, [Tried(rung=ladder.rungs[at], verdict=one) for at, one in tried.items()], policy="walk")
    assert isinstance(move, Try) and tuple(move.rung.values.values()) == following


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9))
def test_where_a_word_does_nothing_the_walk_chooses_what_the_exhaustive_walk_chooses(seed: int) -> None:
    draw, surface = world(seed, most=30)
    surface.ignores = draw.choice(["accumulation", *(wheel.name for wheel in surface.ladder.wheels)])
    assert searched(surface, "walk").chosen == searched(surface, "exhaustive").chosen == searched(surface, "predicted").chosen


@pytest.mark.parametrize("phase", ["setup", "train"])
def test_no_batch_of_validation_is_turned_where_training_ran_out(phase: str) -> None:
    """Measured: 32 ran out in training; then 16 with validation's batch at 2, 4 and 8, of which only the last was needed."""
    ladder = of_a_script()
    history: list[Tried] = []
    while isinstance(move := next_move(ladder, history, policy="predicted"), Try):
        assert move.rung.values["val_micro_batch"] == 8
        fits = move.rung.micro_batch <= 4
        history.append(Tried(rung=move.rung, verdict=FITS if fits else verdict(Kind.OUT_OF_MEMORY, phase)))
    assert isinstance(move, Chosen) and move.rung.micro_batch == 4


def world(seed: int, *, most: int = 40) -> tuple[random.Random, Surface]:
    """An invented surface that falls with every turn of a wheel."""
    draw = random.Random(seed)
    ladder = surfaces.ladder(draw, most=most)
    needs = draw.choice([surfaces.like_memory, surfaces.anyhow_monotone])(draw, ladder)
    return draw, Surface(ladder, needs, measured=draw.random() < 0.5)


def proven(surface: Surface, found: Searched) -> bool:
    """The chosen rung really fitted, and every rung above it really failed or is dominated by one that did."""
    failed = [tried for tried in found.history if not tried.verdict.fits and tried.verdict.kind is not Kind.CARD_TAKEN]
    really = {tried.rung.index for tried in failed}
    assert found.chosen is not None and any(tried.rung.index == found.chosen and tried.verdict.fits for tried in found.history)
    above = surface.ladder.rungs[: found.chosen]
    return all(rung.index in really or dominated_by(surface.ladder, rung, failed) is not None for rung in above)


def held_to_the_walk(seed: int, *, most: int) -> int:
    """Returns how many trials the search made more than the walk."""
    draw, surface = world(seed, most=most)
    walked = searched(surface, "walk")
    found = searched(surface, "predicted", taken=lambda: draw.random() < 0.1)
    assert found.chosen == walked.chosen == searched(surface, "exhaustive").chosen
    assert found.chosen is None or proven(surface, found)
    return found.trials - walked.trials


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9))
def test_the_walks_rung_is_chosen(seed: int) -> None:
    held_to_the_walk(seed, most=30)


def test_in_all_it_makes_fewer_trials_than_the_walk() -> None:
    assert sum(held_to_the_walk(seed, most=30) for seed in range(60)) < 0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9))
def test_on_any_surface_bumps_and_crashes_included_nothing_unproven_is_chosen(seed: int) -> None:
    draw, surface = world(seed, most=30)
    surface.needs = surfaces.noisy(draw, surface.needs)
    surfaces.spoil(draw, surface)
    found = searched(surface, "predicted")
    assert found.chosen is None or proven(surface, found)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9))
@example(61746)
def test_where_rungs_crash_or_refuse_it_finds_what_the_walk_finds_or_what_fits_below_its_end(seed: int) -> None:
    draw, surface = world(seed, most=30)
    surfaces.spoil(draw, surface)
    found = searched(surface, "predicted")
    walked = searched(surface, "walk")
    if walked.chosen is not None or walked.move == NothingLeft(why="exhausted"):
        assert found.chosen == walked.chosen
    elif found.chosen is not None:
        assert (surface.crashes or surface.broken) and proven(surface, found)


def test_a_crash_at_a_rung_below_ends_nothing_before_what_is_above_was_walked() -> None:
    ladder = build([Wheel(name="micro_batch", values=(8, 4, 2))], effective_batch=8)
    crash = Tried(rung=ladder.rungs[1], verdict=Verdict(kind=Kind.CRASHED, phase="train", why="KeyError: x"))
    assert next_move(ladder, [crash], policy="predicted") == Try(rung=ladder.asked)
    again = Tried(rung=ladder.asked, verdict=crash.verdict)
    assert next_move(ladder, [crash, again], policy="predicted") == NothingLeft(why="not_memory")
    fits = Tried(rung=ladder.asked, verdict=FITS)
    assert next_move(ladder, [crash, fits], policy="predicted") == Chosen(rung=ladder.asked)


def test_a_failure_beside_the_device_turns_what_acts_there_and_nothing_else() -> None:
    wheels = [
        Wheel(name="workers", values=(8, 2, 0), acts_in="host"),
        Wheel(name="micro_batch", values=(8, 4)),
        Wheel(name="image_size", values=(640, 320)),
    ]
    ladder, history, short = build(wheels, effective_batch=8), list[Tried](), verdict(Kind.OUT_OF_MEMORY, source="shared_memory")
    while isinstance(move := next_move(ladder, history, policy="walk"), Try):
        history.append(Tried(rung=move.rung, verdict=FITS if move.rung.values["workers"] == 0 else short))
    assert isinstance(move, Chosen)
    assert [tuple(tried.rung.values.values()) for tried in history] == [(8, 8, 640), (2, 8, 640), (0, 8, 640)]


def test_a_full_disk_turns_what_is_saved_and_neither_workers_nor_batches() -> None:
    wheels = [
        Wheel(name="workers", values=(8, 2), acts_in="host"),
        Wheel(name="kept", values=(100, 2), acts_in="host"),
        Wheel(name="micro_batch", values=(8, 4)),
    ]
    ladder = build(wheels, effective_batch=8)
    full = Tried(rung=ladder.asked, verdict=verdict(Kind.OUT_OF_MEMORY, "done", "disk"))
    assert next_move(ladder, [full]).rung.values == {"workers": 8, "kept": 2, "micro_batch": 8}  # type: ignore[union-attr]
    alone = build([wheels[0], wheels[2]], effective_batch=8)
    assert next_move(alone, [Tried(rung=alone.asked, verdict=full.verdict)]) == NothingLeft(why="exhausted"), "no trial is made in vain"


DETECTOR = build(
    [
        Wheel(name="val_micro_batch", values=(16, 8), acts_in="validation"),
        Wheel(name="micro_batch", values=(16, 8, 4)),
        Wheel(name="image_size", values=(640, 320)),
        Wheel(name="model", values=("x", "s")),
    ],
    effective_batch=16,
)


def detector(**values: object) -> Rung:
    wanted = {"val_micro_batch": 16, "micro_batch": 16, "image_size": 640, "model": "x", **values}
    return next(one for one in DETECTOR.rungs if one.values == wanted)


def seen(train: float, validate: float = 0.0, *, failed_in: str = "", **values: object) -> Tried:
    by_phase = {"train": train, **({"validate": validate} if validate else {})}
    shown = FITS if not failed_in else verdict(Kind.OUT_OF_MEMORY, failed_in)
    return Tried(rung=detector(**values), verdict=shown, need=max(train, validate), by_phase=by_phase)


def test_two_trials_give_the_line_in_micro_batch_and_pixels() -> None:
    found = estimates(DETECTOR.rungs, [seen(0.3, micro_batch=4), seen(0.5, micro_batch=8)])
    assert found[detector().index] == pytest.approx(0.9)
    assert found[detector(image_size=320).index] == pytest.approx(0.3), "sixteen of a quarter's pixels are four"
    assert detector(model="s").index not in found, "another model is another line"


def test_validation_has_a_line_of_its_own_and_the_larger_side_counts() -> None:
    trials = [seen(0.2, 0.6, micro_batch=4, val_micro_batch=8), seen(0.3, 1.1, micro_batch=8, failed_in="validate")]
    found = estimates(DETECTOR.rungs, trials)
    assert found[detector(micro_batch=8, val_micro_batch=8).index] == pytest.approx(0.6), "training at 8 was measured: 0.3"
    assert found[detector(val_micro_batch=8).index] == pytest.approx(0.6)
    assert load(detector(val_micro_batch=8), validates=True) == 8 * 640 * 640


def test_no_estimate_lies_below_a_failure() -> None:
    trials = [seen(0.5, micro_batch=4), seen(1.2, micro_batch=8, failed_in="train")]
    assert estimates(DETECTOR.rungs, trials)[detector(micro_batch=8).index] == 1.2
    assert estimates(DETECTOR.rungs, trials)[detector().index] > 1.2


def test_a_script_that_validates_before_it_trains_and_keeps_its_cache_hides_no_rung_that_fits() -> None:
    """build-nanogpt at 64, 32 and 16 on a played card of 24 GB: each began with a validation; the last was squeezed, and held its cache."""
    ladder = build([Wheel(name="micro_batch", values=(64, 32, 16, 8, 4, 2, 1))], effective_batch=512)

    def failed(index: int, need: float, phase: str, **by_phase: float) -> Tried:
        return Tried(rung=ladder.rungs[index], verdict=verdict(Kind.OUT_OF_MEMORY, phase), need=need, by_phase=by_phase)

    trials = [
        failed(0, 0.67, "validate", setup=0.04, validate=0.67),
        failed(1, 0.84, "train", setup=0.04, validate=0.79, train=0.84),
        failed(2, 0.94, "train", setup=0.04, validate=0.94, train=0.94, train_again=0.94, finish=0.94),
    ]
    assert 0.3 < estimates(ladder.rungs, trials).get(3, 0.5) < 1.0
