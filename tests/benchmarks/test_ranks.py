"""Cases of a fault of one rank from their seeds."""

from __future__ import annotations

from collections import Counter

from benchmarks.ranks import cases


def test_cases_are_their_seeds_and_every_fault_comes_to_trials_and_runs() -> None:
    made = [cases.make(seed) for seed in range(120)]
    assert made == [cases.make(seed) for seed in range(120)]
    assert set(Counter((one.where, one.fault) for one in made)) == {(where, fault) for where in ("trial", "run") for fault in cases.FAULTS}
    assert all(one.rank < one.ranks for one in made) and {one.ranks for one in made} == {2, 3, 4}
