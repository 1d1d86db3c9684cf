"""Traces that grow: what is traced once holds at every size; files that are torn are none."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from launcher.forecast import live_peaks
from launcher.shared import trace as events
from launcher.shared.report import Phase
from launcher.shared.trace import ACCUMULATE, Grows, Took, grows
from tests.helpers import traces


@pytest.mark.parametrize(
    ("size", "powers", "coefficient"),
    [(13 * 11 * 11 * 8, (1, 2), 8), (13 * 4, (1, 0), 4), (1024, (0, 0), 1024), (13 * 11**4 * 2, (1, 4), 2), (0, (0, 0), 0)],
)
def test_bytes_tell_by_their_primes_how_they_grow(size: int, powers: tuple[int, ...], coefficient: int) -> None:
    assert grows(size, (13, 11)) == Grows(coefficient=coefficient, powers=powers)


def test_a_trace_at_other_sizes_is_the_run_of_those_sizes() -> None:
    trace = traces.of_a_detector()
    other = trace.at(traces.sizes(4, 20))
    first = next(event for event in other if isinstance(event, Took) and event.key == 2)
    assert first.size == 4 * 20 * 20 * traces.PER_IMAGE
    assert events.live(trace.at(trace.traced_at)) == events.live(trace.events)


@pytest.mark.parametrize(("images", "side"), [(1, 10), (2, 20), (16, 20), (64, 60)])
def test_the_profile_has_the_peaks_of_the_events_at_every_size(images: int, side: int) -> None:
    trace, at = traces.of_a_detector(), traces.sizes(images, side)
    assert live_peaks.profile(trace).at(at) == events.live(trace.at(at))


def test_few_moments_are_left_of_a_long_trace() -> None:
    kept = live_peaks.profile(traces.of_a_detector(layers=500)).phases
    assert len(kept[Phase.TRAIN]) < 5 and len(kept[ACCUMULATE]) < 5


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    trace = traces.of_a_detector()
    events.write(tmp_path / "one.trace", trace)
    assert events.read_trace(tmp_path / "one.trace") == trace


@pytest.mark.parametrize(
    "content",
    [b"", b"torn", gzip.compress(b"{}"), gzip.compress(b'{"format": 0}'), gzip.compress(b"[1")],
    ids=["empty", "torn", "nothing", "old", "half"],
)
def test_a_torn_trace_is_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "torn.trace").write_bytes(content)
    assert events.read_trace(tmp_path / "torn.trace") is None


def test_half_a_trace_is_none(tmp_path: Path) -> None:
    place = tmp_path / "half.trace"
    events.write(place, traces.of_a_detector())
    place.write_bytes(place.read_bytes()[:-20])
    assert events.read_trace(place) is None
