"""A run replayed on a card: bounds, caps, and that what is reserved without a cap is not the need."""

from __future__ import annotations

import pytest

from launcher.forecast.caching_allocator import Full
from launcher.forecast.replay import Use, Workspaces, goes_through, replay
from launcher.shared import trace as events
from launcher.shared.report import Phase
from launcher.shared.sizes import MIB
from launcher.shared.trace import Began, Convolved, Gave, Took, TraceEvent
from tests.helpers import traces

NOTHING = Workspaces(cublas_bytes=0, convolution_share=0.0)
LOW, HIGH = Workspaces(), Workspaces(convolution_share=2.0, pointwise=True)


def of(phase: str, uses: list[Use]) -> Use:
    return next(use for use in uses if use.phase == phase)


def test_workspaces_are_added_to_what_was_traced() -> None:
    trace = traces.of_a_detector().at(traces.sizes(8, 20))
    nothing, low, high = (of(Phase.TRAIN, replay(trace, one)).reserved_bytes for one in (NOTHING, LOW, HIGH))
    live = events.live(trace)[Phase.TRAIN]
    assert live <= nothing < low < high


def test_small_kernels_take_no_workspace_at_the_low_bound() -> None:
    run: list[TraceEvent] = [Began(Phase.TRAIN), Convolved(True, 50 * MIB, 10 * MIB, 40 * MIB, True)]
    assert [of(Phase.TRAIN, replay(run, one)).reserved_bytes for one in (LOW, HIGH)] == [0, 200 * MIB]


def test_a_phase_begins_without_what_the_one_before_left_lying_about() -> None:
    trace = traces.of_a_detector().at(traces.sizes(16, 20, val_images=1))
    uses = replay(trace, NOTHING)
    assert of(Phase.VALIDATE, uses).reserved_bytes < of(Phase.TRAIN, uses).reserved_bytes / 2


def test_reserved_without_a_cap_is_more_than_the_need() -> None:
    run: list[TraceEvent] = [Began(Phase.TRAIN)]
    for key in range(40):  # each a little larger than the one before: what is free never fits
        run += [Took(key, (20 + 2 * key) * MIB), Gave(key)]
    free = of(Phase.TRAIN, replay(run, NOTHING)).reserved_bytes
    assert goes_through(run, NOTHING, free // 5, expandable=False)


def test_a_card_that_is_too_small_is_full() -> None:
    with pytest.raises(Full):
        replay(traces.of_a_detector().at(traces.sizes(8, 20)), LOW, capacity=64 * MIB)


def test_a_trainer_that_empties_the_cache_before_validation_goes_through_with_less() -> None:
    run: list[TraceEvent] = [
        Began(Phase.TRAIN),
        *(Took(key, 21 * MIB) for key in range(3)),
        *(Gave(key) for key in range(3)),
        Began(Phase.VALIDATE),
    ]
    kept = of(Phase.VALIDATE, replay(run, NOTHING, capacity=100 * MIB)).reserved_bytes
    emptied = of(Phase.VALIDATE, replay(run, NOTHING, capacity=100 * MIB, emptied_above=0.5)).reserved_bytes
    assert emptied < kept
