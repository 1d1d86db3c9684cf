"""The pure parts of `make late-memory`: cases from seeds, the table from rows. No training is run."""

from __future__ import annotations

from typing import Any

from benchmarks.late_memory import __main__ as late_memory
from benchmarks.late_memory import cases, table

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


def test_seeds_of_one_training_come_together_and_none_twice() -> None:
    left = late_memory.seeds_left([], only="", slice_=2 * len(cases.TRAININGS))
    assert len(set(left)) == len(left)
    assert [cases.make(seed).training for seed in left[:2]] == ["text", "text"]
    assert left[0] not in late_memory.seeds_left([row(left[0], "parts")], only="", slice_=5)


def test_the_table_counts_and_tells_what_was_restarted_lost_or_another_training() -> None:
    strange = row(1, "room", parts={**DONE, "weights_off": 0.1})
    page = table.document([row(0, "parts"), strange, row(6, "restarted", parts=AGAIN), row(7, "lost", parts=CRASHED), row(8, "over")])
    assert "**4 runs, 2 without a lost step** (50%), 1 restarted, 1 lost" in page
    assert "Parts cost 0.5 s (median), restarts 12.0 s" in page
    assert "1 runs ended worse" in page
    assert "1 runs without a lost step have other weights" in page
    assert "| 6 | plain | train |" in page


def test_dropout_is_a_reason_for_other_weights_once_a_batch_came_in_parts() -> None:
    drawn = row(cases.TRAININGS.index("text_dropout"), "parts", parts={**DONE, "weights_off": 1e-3})
    assert table.strangers([drawn]) == []
    assert table.strangers([{**drawn, "verdict": "room"}])
