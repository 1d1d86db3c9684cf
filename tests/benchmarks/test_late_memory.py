"""The pure parts of `make late-memory`: cases from seeds, the table from rows. No training is run."""

from __future__ import annotations

from typing import Any

from benchmarks.late_memory import __main__ as late_memory
from benchmarks.late_memory import cases, play, table

DONE: dict[str, Any] = {"status": 0, "ended": ["done"], "evidence": [""], "weights_off": 1e-9, "lost_s": 0.5, "repeated_steps": 0}
AGAIN = {**DONE, "ended": ["out_of_memory", "done"], "evidence": ["can't allocate", ""], "lost_s": 12.0, "repeated_steps": 3}
CRASHED = {**DONE, "status": 1, "ended": ["crashed"]}


def row(seed: int, verdict: str, **more: Any) -> dict[str, Any]:
    where = {"commit": "abc1234", "versions": {"torch": "2.15.0"}, "machine": {"cores": 2, "memory_gib": 23.5}}
    case = cases.make(seed)
    own = {"seed": seed, "generator": cases.GENERATOR, "training": case.training, "moment": case.moment, "left": case.left}
    return {**own, "parts": DONE, "restart": AGAIN, "verdict": verdict, **where, **more}


def test_a_round_of_seeds_holds_every_pair_once() -> None:
    made = [cases.make(seed) for seed in range(len(cases.PAIRS))]
    assert {(one.training, one.moment) for one in made} == set(cases.PAIRS)
    assert all(0 < one.left < 1 and one.step < cases.STEPS[one.kind] for one in made)


def test_seeds_come_in_turn_and_none_twice() -> None:
    assert late_memory.seeds_left([row(1, "parts")], only="", slice_=3) == [0, 2, 3]
    assert {cases.make(seed).training for seed in late_memory.seeds_left([], only="yolo", slice_=3)} == {"yolo"}


def test_those_again_are_the_ones_whose_last_run_lost_a_step() -> None:
    assert late_memory.seeds_again([row(6, "restarted"), row(0, "lost"), row(2, "lost"), row(2, "parts"), row(3, "room")]) == [6, 0]


def test_a_fifth_of_a_round_shows_what_a_restart_costs() -> None:
    compared = [one for one in map(cases.make, range(len(cases.PAIRS))) if one.compared]
    assert sorted(one.training for one in compared) == sorted(cases.TRAININGS)
    assert {one.moment for one in compared} == set(cases.MOMENTS)


def test_a_restart_is_played_where_a_step_was_lost_or_to_compare() -> None:
    class Played:
        def __init__(self, parts: dict[str, Any]) -> None:
            self.undisturbed = {"seconds": 1.0}
            self.said = {"parts": {**parts, "struck": {}, "taken_again": ["a"]}, "restart": AGAIN}

        def arm(self, arm: str, case: cases.Case) -> dict[str, Any]:
            return self.said[arm]

    rows = [play.play(cases.make(seed), Played(parts)) for seed, parts in ((1, DONE), (5, DONE), (1, AGAIN), (1, CRASHED))]
    assert [(row["verdict"], row["restart"] is not None) for row in rows] == [
        ("parts", False), ("parts", True), ("restarted", True), ("lost", True),
    ]  # fmt: skip


def test_the_table_counts_and_tells_what_was_restarted_lost_or_another_training() -> None:
    strange = row(1, "room", parts={**DONE, "weights_off": 0.1})
    page = table.document([row(0, "parts"), strange, row(6, "restarted", parts=AGAIN), row(7, "lost", parts=CRASHED), row(8, "over")])
    assert "**4 runs, 2 without a lost step** (50%), 1 restarted, 1 lost" in page
    assert "Parts cost 0.5 s (median), 1 of 1 at most 2 s; restarts 12.0 s" in page
    assert "1 runs ended worse" in page
    assert (
        "1 runs without a lost step have other weights" in page
        and "- seed 1 (script of trainer, train): 1.0e-01 away; not looked at." in page
    )
    assert "| 6 | plain | train |" in page


def test_a_row_without_a_restart_is_counted_and_is_no_worse() -> None:
    page = table.document([row(2, "parts", restart=None), row(3, "room", restart=None)])
    assert "**2 runs, 2 without a lost step** (100%)" in page
    assert "0 runs ended worse" in page


def test_dropout_is_a_reason_for_other_weights_once_a_batch_came_in_parts() -> None:
    drawn = row(cases.TRAININGS.index("text_dropout"), "parts", parts={**DONE, "weights_off": 1e-3})
    assert table.strangers([drawn]) == []
    assert table.strangers([{**drawn, "verdict": "room"}])
