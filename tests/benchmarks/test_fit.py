"""The pure parts of `make fit`: what is left to play, and the table from rows. No trial is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import fit, rows


def row(search: str, rung: int, trials: int, *, ask: str = "text", part: float = 0.75, seconds: float = 10.0) -> dict[str, Any]:
    return {"what": "searched", "ask": ask, "part": part, "search": search, "rung_index": rung, "trials": [{}] * trials, "seconds": seconds}


def test_there_are_sixty_cases_and_a_slice_has_something_of_each_ask() -> None:
    all_of_them = list(fit.cases())
    assert len(all_of_them) == len({case.name for case in all_of_them}) == 60
    assert {case.ask for case in all_of_them[: len(fit.ASKS)]} == set(fit.ASKS)


def test_a_case_is_left_until_every_search_has_played_it() -> None:
    case = next(fit.cases())
    walked = row("walk", 1, 2, ask=case.ask, part=case.part)
    assert next(fit.left([walked])) == case
    assert case not in list(fit.left([walked, row("predicted", 1, 2, ask=case.ask, part=case.part)]))
    assert {one.ask for one in fit.left([], only="speech")} == {"speech"}


def test_a_torn_last_row_is_as_if_it_had_not_been_written(tmp_path: Path) -> None:
    rows.append(tmp_path / "rows", row("walk", 1, 2))
    with (tmp_path / "rows").open("a") as file:
        file.write('{"what": "sear')
    assert rows.read(tmp_path / "rows") == [row("walk", 1, 2)]


def test_the_table_tells_another_rung_and_leaves_out_what_is_not_whole() -> None:
    rows = [row("walk", 3, 4, seconds=40), row("predicted", 3, 2, seconds=10), row("walk", 1, 2, part=0.3)]
    text = fit.document(rows)
    assert "| text x 0.75 | 3 | 4 | 2 | 40 | 10 |" in text and "x 0.3" not in text
    assert "1 cases: the walk's rung in 1; trials 2 median" in text and "0.25 median" in text
    assert "**3 / 2**" in fit.document([rows[0], row("predicted", 2, 2)])
