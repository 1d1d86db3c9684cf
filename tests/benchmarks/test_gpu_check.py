"""The page of what cards have shown is made of its rows; its cases are played on cards that are not there (``make gpu-check``)."""

from __future__ import annotations

from benchmarks.gpu_check import rows, table


def test_the_committed_page_is_made_of_the_committed_rows() -> None:
    assert table.PAGE.read_text(encoding="utf-8") == table.render(rows.read())
