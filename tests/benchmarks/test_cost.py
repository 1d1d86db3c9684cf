"""Rows of `make cost`: each has the same parts, which make up its seconds, and a line in the table."""

from __future__ import annotations

import pytest

from benchmarks.common.rows import read
from benchmarks.cost.first_step import CASES, DATA, PARTS, table


def test_every_row_says_where_its_seconds_went() -> None:
    rows = read(DATA)
    assert {row["case"] for row in rows} == set(CASES)
    for row in rows:
        assert {"commit", "machine", "versions", "load_before"} < row.keys() and "/work" not in str(row)
        assert row["first_steps"].keys() == row["seconds"].keys() == {"plain", "fits", "lower"}
        for way in ("fits", "lower"):
            one = row["seconds"][way]
            assert one["first_step"] == pytest.approx(sum(one[name] for name in PARTS), abs=0.1)
            assert one["each"][-1]["verdict"] == "fits" and len(one["each"]) > (way == "lower")
    assert len(table(rows).splitlines()) == 2 + 2 * len(rows)
