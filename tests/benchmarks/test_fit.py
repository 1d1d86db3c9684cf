"""The search of `make fit`, on peaks that real trials have measured. No trial is made."""

from __future__ import annotations

from benchmarks.common import rows
from benchmarks.fit import play, replay


def test_a_first_launch_finds_the_walks_rung_in_few_trials_on_peaks_that_real_ones_measured() -> None:
    found = list(replay.launches(rows.read(play.DATA)))
    assert len(found) >= 60 and all(one.now[0] == one.walk[0] for one in found)
    assert all(one.now[1] <= one.walk[1] + 1 for one in found)
    assert sum(one.now[1] for one in found) <= 161 and sum(one.now[1] <= 5 for one in found) >= 0.9 * len(found)
