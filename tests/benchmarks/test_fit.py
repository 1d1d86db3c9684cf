"""The pure parts of `make fit`: what is left to play, and the table from rows. No trial is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.common import rows
from benchmarks.fit import cases, least, play, replay, table


def row(search: str, rung: int, trials: int, *, ask: str = "text", part: float = 0.75, **more: Any) -> dict[str, Any]:
    failed = [{"rung_index": at, "verdict": "out_of_memory", "phase": "train", "seconds": 1.0} for at in range(trials)]
    said = {"rung_index": rung, "trials": failed, "seconds": 10.0, **more}
    return {"what": "searched", "ask": ask, "part": part, "search": search, **said}


def searched(rung: int, trials: dict[str, int], seconds: dict[str, float], **more: Any) -> list[dict[str, Any]]:
    return [row(name, rung, trials.get(name, 0), seconds=seconds.get(name, 0.5), **more) for name in cases.SEARCHES]


def test_there_are_more_than_sixty_cases_and_a_slice_has_something_of_each_ask() -> None:
    all_of_them = list(cases.cases())
    assert len(all_of_them) == len({case.name for case in all_of_them}) >= 60
    assert {case.ask for case in all_of_them[: len(cases.ASKS)]} == set(cases.ASKS)


def test_a_case_is_left_until_every_search_has_played_it() -> None:
    case = next(cases.cases())
    played = searched(1, {}, {}, ask=case.ask, part=case.part)
    assert next(cases.left(played[:-1])) == case
    assert case not in list(cases.left(played))
    assert {one.ask for one in cases.left([], only="speech")} == {"speech", "speech-32", "speech-far"}


def test_a_torn_last_row_is_as_if_it_had_not_been_written(tmp_path: Path) -> None:
    rows.append(tmp_path / "rows", row("walk", 1, 2))
    with (tmp_path / "rows").open("a") as file:
        file.write('{"what": "sear')
    assert rows.read(tmp_path / "rows") == [row("walk", 1, 2)]


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


def test_no_search_can_do_with_less_than_the_answer_and_the_failures_that_rule_out_all_above_it() -> None:
    """yolo-far: three micro-batches of each image size; 16 x 224 and 32 x 192 rule out what is above 16 x 192."""
    trials = [{"rung_index": at, "verdict": "out_of_memory", "phase": "train", "seconds": 2.0} for at in range(5)]
    trials.append({"rung_index": 5, "verdict": "fits", "phase": "done", "seconds": 8.0})
    found = least.of({"ask": "yolo-far", "trials": trials, "seconds": 20.0})
    assert found.trials == 3 and found.share == 14 / 20


def test_the_micro_batch_that_was_taken_stands_beside_the_fastest() -> None:
    timed = {"what": "timed", "ask": "text", "samples_per_second": {"8": 4.0, "4": 5.0}, "chosen": 8, "trials": 2}
    text = table.document([timed])
    assert "| text | 8: 4, 4: 5 | 8 | 0.80 | 2 |" in text and "0.80 of the fastest in the median" in text


def test_a_rung_that_fits_in_one_search_and_fails_in_another_has_no_right_answer() -> None:
    played = searched(1, {"walk": 2, "predicted": 2, "known": 2}, {})
    assert table.undecided({row["search"]: row for row in played}) == set()
    played[1]["trials"] = [{"rung_index": 0, "verdict": "fits"}]
    assert table.undecided({row["search"]: row for row in played}) == {0}
    assert "the walk's rung in 0 of 0" in table.document(played) and "In 1 of them" in table.document(played)


def test_what_others_found_stands_beside_the_known_search() -> None:
    peer = {"what": "peer", "peer": "accelerate", "ask": "text", "part": 0.75, "survived": False, "micro_batch": 4, "attempts": [8, 4],
            "seconds": 30.0, "end": "killed (exit status 1)"}  # fmt: skip
    text = table.document([peer, *searched(3, {"known": 2}, {"known": 9.0})])
    assert "| text x 0.75 | accelerate | 2 | 4 | 30 | no: killed (exit status 1) | 2 | 3 | 9 |" in text and "1 of 1 of their" in text


def test_the_plot_is_drawn_from_rows(tmp_path: Path) -> None:
    table.plot(searched(1, {"walk": 4, "predicted": 2, "known": 2}, {}), tmp_path / "fit.svg")
    assert "<svg" in (tmp_path / "fit.svg").read_text()


@pytest.mark.parametrize("both", [False, True])
def test_replayed_on_real_peaks_the_search_chooses_the_walks_rung_in_a_tenth_more_trials_than_traces_led_to_at_most(both: bool) -> None:
    found = [one for one in replay.on_real_peaks(rows.read(play.DATA), both=both) if isinstance(one, replay.Replayed)]
    assert len(found) >= 57 + 4 * both and all(one.now[0] == one.walk[0] for one in found)
    assert sum(one.now[1] for one in found) <= 1.1 * sum(one.led for one in found) < sum(one.walk[1] for one in found)


def test_on_foretold_needs_the_search_chooses_the_walks_rung_in_a_tenth_more_trials_than_traces_led_to_at_most() -> None:
    found = list(replay.on_foretold_needs())
    assert len(found) == 56 and all(one.now[0] == one.walk[0] for one in found)
    assert sum(one.now[1] for one in found) <= 1.1 * replay.LED < sum(one.walk[1] for one in found)
