"""A fault of one rank: cases from seeds, and what the page says of their rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

from benchmarks.ranks import cases, table


def row(**other: Any) -> dict[str, Any]:
    usual = {
        "seed": 1, "trainer": "script", "ranks": 2, "fault": "memory", "rank": 1, "where": "trial", "hung": False, "struck": True,
        "verdict": "out_of_memory", "why": "rank 1 of 2: out of memory", "seconds": 1.5, "named": True, "left": [], "trial_s": 9.0,
        "memory": False, "versions": {"torch": "2.15.0"}, "machine": {"cores": 2, "system": "Linux"},
    }  # fmt: skip
    return {**usual, **other}


def test_cases_are_their_seeds_and_every_fault_comes_to_trials_and_runs() -> None:
    made = [cases.make(seed) for seed in range(120)]
    assert made == [cases.make(seed) for seed in range(120)]
    assert set(Counter((one.where, one.fault) for one in made)) == {(where, fault) for where in ("trial", "run") for fault in cases.FAULTS}
    assert all(one.rank < one.ranks for one in made) and {one.ranks for one in made} == {2, 3, 4}


def test_what_was_not_as_promised_is_told_with_its_seed() -> None:
    rows = [row(), row(seed=2, seconds=9.0), row(seed=3, named=False), row(seed=4, verdict="fits"), row(seed=5, left=["python"])]
    page = table.document([*rows, row(seed=6, struck=False)])
    assert "**5 trials and runs, 0 hung, 1 left a process.**" in page and "5 ran out of memory: 4 verdicts within 5 s" in page
    assert "4 named the rank. 1 verdicts were others than what happened." in page
    told = page.split("## Not as promised")[1]
    assert [f"| {seed} |" in told for seed in range(1, 7)] == [False, True, True, True, True, False]
