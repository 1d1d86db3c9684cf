"""The committed table of `make versions`: rows that work are of a lower rung with the batch asked for."""

from __future__ import annotations

import json

from benchmarks.versions import table


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
