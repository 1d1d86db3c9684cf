"""The time series of a run: small however long the run is, whole whatever ends it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.full_run import run
from autofit_launcher.history import series
from autofit_launcher.history.series import Series, seconds_left
from tests.helpers.stand_in import watched


def line(at: float, **more: Any) -> dict[str, Any]:
    return {"at": at, "used_bytes": 1, "peak_bytes": 1, **more}


def test_what_is_added_is_read_back_in_order_without_what_is_not_known(tmp_path: Path) -> None:
    kept = Series(tmp_path / "series.jsonl")
    kept.add(line(1.0, loss=0.123456789, step=None))
    kept.add(line(2.0, loss=float("nan")))
    assert series.read(tmp_path / "series.jsonl") == [line(1.0, loss=0.123457), line(2.0, loss="nan")]


def test_a_torn_line_is_passed_over_and_a_later_attempt_goes_on_behind(tmp_path: Path) -> None:
    path = tmp_path / "series.jsonl"
    path.write_text(json.dumps(line(1.0)) + "\n" + '{"at": 2.0, "used')
    Series(path).add(line(3.0))
    assert [one["at"] for one in series.read(path)] == [1.0, 3.0]


def test_a_full_disk_ends_nothing(tmp_path: Path) -> None:
    path = tmp_path / "series.jsonl"
    kept = Series(path)
    path.symlink_to("/dev/full")  # which is never read: it has no end
    kept.add(line(1.0))


def test_a_line_a_second_in_the_first_hour_then_one_every_ten(tmp_path: Path) -> None:
    path, began = tmp_path / "series.jsonl", 1e9
    kept = Series(path)
    for second in range(3700):
        if second == 1800:
            kept = Series(path)  # a later attempt: the run began with the first
        if kept.due(began + second):
            kept.add(line(began + second))
    times = [one["at"] - began for one in series.read(path)]
    assert times == [*map(float, range(3600)), *map(float, range(3609, 3700, 10))]


def test_a_new_peak_and_the_end_are_written_though_no_line_is_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1e9]
    monkeypatch.setattr(run.time, "time", lambda: clock[0])
    one, _ = watched(tmp_path, now_bytes=5, peak_bytes=5, lately=lambda: one._usage.peak_bytes)
    one.look()
    for at, peak in ((4000, 5), (4001, 5), (4002, 9), (4003, 9), (4004, 9)):
        clock[0], one._usage.peak_bytes = 1e9 + at, peak
        one.look(ended=at == 4004)
    assert [(told["at"] - 1e9, told["peak_bytes"]) for told in series.read(tmp_path / "series.jsonl")] == [
        (0, 5), (4000, 5), (4002, 9), (4004, 9),
    ]  # fmt: skip


def test_the_time_left_is_by_what_was_done_since_the_start() -> None:
    lines = [line(0.0, done=0.9), line(100.0, done=0.5), line(110.0), line(120.0, done=0.6)]
    assert seconds_left(lines, since=50.0) == pytest.approx(80.0)
    assert seconds_left(lines, since=115.0) is None and seconds_left([], since=0.0) is None
