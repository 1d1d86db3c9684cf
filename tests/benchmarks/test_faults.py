"""The pure parts of `make faults`: cases from seeds, the table from rows, what is torn. No training is run."""

from __future__ import annotations

from typing import Any

from benchmarks.faults import cases, table


def row(seed: int, **more: Any) -> dict[str, Any]:
    usual = {
        "seed": seed, "generator": cases.GENERATOR, "trainer": "yolo", "fault": "memory", "struck": True, "verdict": "finished",
        "broken": [],
        "attempts": ["out_of_memory in train at rung 0", "done in done at rung 1"], "commit": "abc1234", "versions": {"torch": "2.15.0"},
    }  # fmt: skip
    return {**usual, **more}


def test_a_round_of_seeds_holds_every_fault_with_every_trainer_once() -> None:
    played = [(one.fault, one.trainer) for one in map(cases.make, range(len(cases.PAIRS)))]
    assert sorted(played) == sorted(cases.PAIRS) and cases.make(7) == cases.make(7)


def test_the_table_counts_only_faults_that_were_done_and_tells_every_loss() -> None:
    lost = row(2, verdict="lost", attempts=["crashed in train at rung 0"])
    broken = row(3, broken=["processes left: [7]"])
    page = table.document([row(1), lost, broken, row(4, struck=False)])
    assert "**3 runs, 1 lost**" in page and "1 more were over" in page
    assert "| 2 | yolo, memory | lost |" in page and "processes left: [7]" in page
    assert "| memory | 3 | 2 | 0 | 1 | 1 |" in page
