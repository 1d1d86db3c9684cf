"""The judge of `make same-training`, and its cases. No training is run."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.same_training import cases, judge
from benchmarks.same_training.measure import Measured

CASE = cases.CASES[0]
HOPELESS = next(case for case in cases.CASES if not case.same)
PROVEN = dict.fromkeys(judge.PARTS, "proven")


def measured(**more: Any) -> Measured:
    usual: dict[str, Any] = {
        "start": 0.0, "gradient": 2e-7, "factor": 1.0, "residue": 2e-7, "weights": 1e-6, "steps": (12, 12), "rows": (96, 96),
        "same_rows": True, "rates": "", "kept": 1e-7,
    }  # fmt: skip
    return Measured(**{**usual, **more})


def answer(**more: Any) -> dict[str, Any]:
    return {"status": "done", "rung": {"micro_batch": 2}, "effective_batch": 8, "trials": [], **more}


def verdict(found: Measured | None, case: cases.Case = CASE, screen: str = "", **more: Any) -> str:
    return judge.verdict(case, judge.said(answer(**more), screen), found)


@pytest.mark.parametrize(("found", "part"), [
    ({"gradient": 1.0, "factor": 2.0, "residue": 1e-7}, "gradient"), ({"steps": (12, 3)}, "steps"),
    ({"rates": "step 1: 0.1 and 0.025"}, "schedule"), ({"rows": (96, 24), "weights": 1e-3}, "samples"),
    ({"same_rows": False, "weights": 1e-3}, "samples"), ({"weights": 0.3}, "weights"), ({"kept": 0.3}, "weights"),
    ({"start": 1e-3}, "weights"),
])  # fmt: skip
def test_a_difference_that_nobody_spoke_of_is_silent_and_one_that_was_told_is_not(found: dict[str, Any], part: str) -> None:
    differing = measured(**found)
    assert list(judge.differences(differing, CASE)) == [part]
    assert verdict(differing) == judge.SILENT, "the effective batch as asked, and no word"
    assert verdict(differing, same_training=PROVEN) == judge.SILENT
    assert verdict(differing, effective_batch=2) == judge.TOLD
    assert verdict(differing, screen="accumulate: batch norm takes its statistics from micro-batches") == judge.TOLD
    told = "gradient" if part == "weights" else part
    assert verdict(differing, same_training={**PROVEN, told: "differs by 4.0 times"}) == judge.TOLD


def test_sameness_is_said_denied_or_not_proven() -> None:
    assert verdict(measured()) == judge.SAME
    assert verdict(measured(), same_training=PROVEN) == judge.SAME
    assert verdict(measured(), same_training={**PROVEN, "gradient": "differs by 2.0 times"}) == judge.ALARM
    assert verdict(measured(), same_training={**PROVEN, "samples": "not comparable because no loader was seen"}) == judge.UNPROVEN
    assert verdict(measured(rows=(92, 88))) == judge.SAME, "a loader that fetches a batch ahead"


def test_a_refusal_is_right_only_where_the_command_as_it_stands_differs() -> None:
    trials = [{"verdict": "out_of_memory", "why": "x"}, {"verdict": "altered", "why": "the rows of a batch see each other"}]
    assert verdict(None, status="no_rung_fits", trials=trials) == judge.ALARM
    assert verdict(None, HOPELESS, status="no_rung_fits", trials=trials) == judge.REFUSED
    assert verdict(None, HOPELESS, status="no_rung_fits", trials=trials[:1]) == judge.NOT_PLAYED, "that was memory"
    refused = {**PROVEN, "gradient": "differs by its rows", "refused": "gradient differs by its rows"}
    assert verdict(None, HOPELESS, status="no_rung_fits", trials=trials[:1], same_training=refused) == judge.REFUSED
    assert verdict(None, HOPELESS, status="bad_input", faults=[{"found": "no batch size"}]) == judge.REFUSED
