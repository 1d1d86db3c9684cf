"""The table of `make versions` says of each row what works, and rows that work are of a lower rung with the batch asked for."""

from __future__ import annotations

import json

from benchmarks.common.rows import Row
from benchmarks.versions import table


def row(point: str, **more: object) -> Row:
    return {
        "point": point, "trainer": "ultralytics", "installed": True,
        "versions": {"python": "3.11.9", "ultralytics": "8.4.150", "numpy": "2"},
        "tests": {"passed": 9, "skipped": 0, "failed": []}, "run": "ended",
        "fit": {"rung_index": 1, "effective_batch": 8, "trials": ["0: out_of_memory", "1: fits"]}, **more,
    }  # fmt: skip


def test_the_table_says_what_fails_and_what_cannot_be_installed() -> None:
    failing = row("yolo-8.4.150", tests={"passed": 8, "skipped": 0, "failed": ["a"]})
    gone = {"point": "yolo-8.3.0", "installed": False, "why": "no such version"}
    lines = table.table([failing, gone]).splitlines()[2:]
    assert lines == [
        "| yolo-8.3.0 | can't be installed: no such version | | |",
        "| yolo-8.4.150 | python 3.11.9, ultralytics 8.4.150 | 8 passed, 1 failed: a "
        "| rungs 0: out_of_memory, 1: fits; effective batch 8; run ended |",
    ]


def test_the_committed_table_is_that_of_the_committed_rows_and_names_no_machine() -> None:
    rows = table.read(table.DATA)
    text = table.TABLE.read_text(encoding="utf-8")
    assert table.table(rows.values()) in text and table.summary(rows.values()) in text
    assert "://" not in json.dumps(list(rows.values())) and "/home/" not in json.dumps(list(rows.values()))


def verdict(trial: str) -> str:
    return trial.rpartition(": ")[2]


def test_in_every_row_that_works_a_rung_failed_and_a_lower_one_was_trained_with_the_same_effective_batch() -> None:
    for row in filter(table.works, table.read(table.DATA).values()):
        fit = row["fit"]
        assert f"{fit['rung_index']}: fits" in fit["trials"] and set(map(verdict, fit["trials"])) == {"out_of_memory", "fits"}, row["point"]
        assert fit["rung_index"] > 0 and fit["rung"]["micro_batch"] * fit["accumulation"] == fit["effective_batch"], row["point"]
