"""The pure parts of `make fit`: what is left to play, and the table from rows. No trial is made."""

from __future__ import annotations

from typing import Any

from benchmarks.common import rows
from benchmarks.fit import cases, play, replay, table


def row(search: str, rung: int, trials: int, *, ask: str = "text", part: float = 0.75, **more: Any) -> dict[str, Any]:
    failed = [{"rung_index": at, "verdict": "out_of_memory", "phase": "train", "seconds": 1.0} for at in range(trials)]
    said = {"rung_index": rung, "trials": failed, "seconds": 10.0, **more}
    return {"what": "searched", "ask": ask, "part": part, "search": search, **said}


def searched(rung: int, trials: dict[str, int], seconds: dict[str, float], **more: Any) -> list[dict[str, Any]]:
    return [row(name, rung, trials.get(name, 0), seconds=seconds.get(name, 0.5), **more) for name in cases.SEARCHES]


def test_the_table_tells_another_rung_and_leaves_out_what_is_not_whole() -> None:
    played = searched(3, {"walk": 4, "predicted": 2, "known": 1}, {"walk": 40, "predicted": 10, "known": 5})
    text = table.document([*played, row("walk", 1, 2, part=0.3)])
    assert "| text x 0.75 | 3 | 4 | 2 | 1 | 40 | 10 | 5 | 0.5 |" in text and "x 0.3" not in text
    assert "- predicted: the walk's rung in 1 of 1; trials 2 median" in text and "the walk's 0.25 median" in text
    assert "- again: 0.50 s median" in text and "Where the walk makes" not in text
    long = table.document(searched(9, {"walk": 8, "predicted": 2, "known": 1}, {"walk": 80, "predicted": 20, "known": 8}))
    told = "(1 cases, 8 in the median): predicted 2 trials, 0.25 of the walk's seconds (1 played alone); known 1 trials, 0.10"
    assert f"- Where the walk makes 6 trials or more {told}" in long
    assert "exhaustive" not in text
    assert "the walk's rung in 1 of 1, in 6 trials" in table.document([*played, row("exhaustive", 3, 6)])
    assert "**3 / 2 / 3**" in table.document([played[0], row("predicted", 2, 2), *played[2:]])


def test_a_first_launch_finds_the_walks_rung_in_few_trials_on_peaks_that_real_ones_measured() -> None:
    found = list(replay.launches(rows.read(play.DATA)))
    assert len(found) >= 61 and all(one.now[0] == one.walk[0] for one in found)
    assert sum(one.now[1] > one.walk[1] + 1 for one in found) <= 1
    assert sum(one.now[1] for one in found) <= 176 and sum(one.now[1] <= 5 for one in found) >= 0.9 * len(found)
