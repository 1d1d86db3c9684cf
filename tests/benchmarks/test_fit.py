"""The pure parts of `make fit`: what is left to play, and the table from rows. No trial is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import fit, rows


def row(search: str, rung: int, trials: int, *, ask: str = "text", part: float = 0.75, **more: Any) -> dict[str, Any]:
    said = {"rung_index": rung, "trials": [{}] * trials, "seconds": 10.0, **more}
    return {"what": "searched", "ask": ask, "part": part, "search": search, **said}


def searched(rung: int, trials: dict[str, int], seconds: dict[str, float], **more: Any) -> list[dict[str, Any]]:
    return [row(name, rung, trials.get(name, 0), seconds=seconds.get(name, 0.5), **more) for name in fit.SEARCHES]


def test_there_are_sixty_cases_and_a_slice_has_something_of_each_ask() -> None:
    all_of_them = list(fit.cases())
    assert len(all_of_them) == len({case.name for case in all_of_them}) == 60
    assert {case.ask for case in all_of_them[: len(fit.ASKS)]} == set(fit.ASKS)


def test_a_case_is_left_until_every_search_has_played_it() -> None:
    case = next(fit.cases())
    played = searched(1, {}, {}, ask=case.ask, part=case.part)
    assert next(fit.left(played[:-1])) == case
    assert case not in list(fit.left(played))
    assert {one.ask for one in fit.left([], only="speech")} == {"speech", "speech-32"}


def test_a_torn_last_row_is_as_if_it_had_not_been_written(tmp_path: Path) -> None:
    rows.append(tmp_path / "rows", row("walk", 1, 2))
    with (tmp_path / "rows").open("a") as file:
        file.write('{"what": "sear')
    assert rows.read(tmp_path / "rows") == [row("walk", 1, 2)]


def test_the_table_tells_another_rung_and_leaves_out_what_is_not_whole() -> None:
    played = searched(3, {"walk": 4, "predicted": 2, "known": 1}, {"walk": 40, "predicted": 10, "known": 5})
    text = fit.document([*played, row("walk", 1, 2, part=0.3)])
    assert "| text x 0.75 | 3 | 4 | 2 | 1 | 40 | 10 | 5 | 0.5 |" in text and "x 0.3" not in text
    assert "- predicted: the walk's rung in 1; trials 2 median" in text and "the walk's 0.25 median" in text
    assert "- again: 0.50 s median" in text
    assert "**3 / 2 / 3**" in fit.document([played[0], row("predicted", 2, 2), *played[2:]])


def test_a_forecast_is_judged_as_it_was_and_as_other_asks_would_have_corrected_it() -> None:
    def seen(foreseen: int, real: int) -> list[dict[str, Any]]:
        return [{"trainer": "t", "phase": "train", "foreseen_bytes": foreseen, "real_bytes": real}]

    played = [row("predicted", 0, 1, ask=ask, seen=seen(100, 110)) for ask in ("text", "songs")]
    text = fit.document([*played, *searched(1, {"walk": 1, "predicted": 1, "known": 1}, {}, ask="speech", seen=[])])
    assert "| t | train | 2 | 9.1% | 9.1% | 2 of 2 | 0.0% | 0.0% |" in text


def test_the_micro_batch_that_was_taken_stands_beside_the_fastest() -> None:
    timed = {"what": "timed", "ask": "text", "samples_per_second": {"8": 4.0, "4": 5.0}, "chosen": 8, "trials": 2}
    text = fit.document([timed])
    assert "| text | 8: 4, 4: 5 | 8 | 0.80 | 2 |" in text and "0.80 of the fastest in the median" in text
