"""The pure parts of `make same-training`: which rows are left, verdicts, the page. No training is run."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.same_training import __main__ as same_training
from benchmarks.same_training import cases, judge, measure, observer, table
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


def row(case: str = "plain", rung: str = "2x4", **more: Any) -> dict[str, Any]:
    usual = {
        "case": case, "kind": "plain loop", "rung": rung, "verdict": judge.SAME, "words": "effective batch as asked", "differs": {},
        "measured": measured().as_row(), "commit": "abc1234", "versions": {"torch": "2.15.0"},
        "machine": {"cores": 2, "memory_gib": 24.0},
    }  # fmt: skip
    return {**usual, **more}


# -- which rows -----------------------------------------------------------------------------------------------------------


def test_every_kind_that_was_asked_for_has_a_case_and_every_case_four_rungs() -> None:
    kinds = {case.kind for case in cases.CASES}
    assert len(kinds) >= 15 and len({case.name for case in cases.CASES}) == len(cases.CASES)
    assert len(list(cases.plays())) == 4 * len(cases.CASES)
    assert all((same_training.play.HERE / "scripts" / case.script).exists() for case in cases.CASES if case.script)


def test_what_has_a_row_is_left_out_unless_it_is_to_be_played_again() -> None:
    rows = [row(CASE.name, "2x4"), row(CASE.name, "8x1")]
    assert [micro for _, micro in same_training.left(rows, only=CASE.name)] == [4, 1]
    assert [micro for _, micro in same_training.left(rows, only=CASE.name, again=True)] == [2, 8, 4, 1]
    both = list(same_training.left([], only=f"{CASE.name}-4x2,{HOPELESS.name}-1x8"))
    assert both == [(CASE, 4), (HOPELESS, 1)]


@pytest.mark.parametrize("each", [1, 2])
def test_the_memory_lies_between_this_rungs_need_and_the_next_larger_ones(each: int) -> None:
    """``each``: rows that a forward pass has for one of the micro-batch (a pair's two)."""

    def cap(micro: int) -> float:
        word = next(one for one in same_training.play._device(replace(CASE, forward_rows=each), micro) if one.startswith("device.memory="))
        return int(word.removeprefix("device.memory=").removesuffix("MiB")) * 0.9 / (same_training.play.BALLAST / 2**20) / each

    assert all(micro < cap(micro) < 2 * micro for micro in (1, 2, 4)) and cap(8) > 8


# -- verdicts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "part"),
    [
        ({"gradient": 1.0, "factor": 2.0, "residue": 1e-7}, "gradient"),
        ({"steps": (12, 3)}, "steps"),
        ({"rates": "step 1: 0.1 and 0.025"}, "schedule"),
        ({"rows": (96, 24), "weights": 1e-3}, "samples"),
        ({"same_rows": False, "weights": 1e-3}, "samples"),
        ({"weights": 0.3}, "weights"),
        ({"kept": 0.3}, "weights"),
        ({"start": 1e-3}, "weights"),
    ],
)
def test_a_difference_that_nobody_spoke_of_is_silent_and_one_that_was_told_is_not(found: dict[str, Any], part: str) -> None:
    differing = measured(**found)
    assert list(judge.differences(differing, CASE)) == [part]
    assert verdict(differing) == judge.SILENT, "the effective batch as asked, and no word"
    assert verdict(differing, same_training=PROVEN) == judge.SILENT
    assert verdict(differing, effective_batch=2) == judge.TOLD
    assert verdict(differing, screen="accumulate: batch norm takes its statistics from micro-batches") == judge.TOLD
    told = "gradient" if part == "weights" else part
    assert verdict(differing, same_training={**PROVEN, told: "differs by 4.0 times"}) == judge.TOLD


def test_rows_that_were_fetched_and_of_which_nothing_came_are_no_difference() -> None:
    assert verdict(measured(same_rows=False, rows=(80, 84)), same_training=PROVEN) == judge.SAME


def test_a_proof_that_denies_another_part_leaves_the_difference_silent() -> None:
    assert verdict(measured(steps=(12, 3)), same_training={**PROVEN, "gradient": "differs by 2.0 times"}) == judge.SILENT


def test_a_note_of_the_proof_speaks_of_the_update_and_of_nothing_else() -> None:
    proof = {**PROVEN, "notes": ["batch norm takes its statistics from micro-batches"]}
    assert verdict(measured(gradient=0.2), same_training=proof) == judge.TOLD
    assert verdict(measured(steps=(12, 3)), same_training=proof) == judge.SILENT
    screen = "accumulate: batch norm takes its statistics from micro-batches"
    assert verdict(measured(gradient=0.2), same_training=PROVEN, screen=screen) == judge.TOLD
    assert verdict(measured(gradient=0.2), same_training=PROVEN, screen="this differs from the large batch's") == judge.SILENT


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


def test_a_run_that_failed_or_was_not_seen_counts_nowhere() -> None:
    assert verdict(None) == judge.NOT_PLAYED
    assert verdict(measured(steps=(12, 1)), status="failed") == judge.NOT_PLAYED


# -- the observer -----------------------------------------------------------------------------------------------------------


def seen(folder: Path, *flags: str) -> Any:
    """What the observer writes down of a script of this benchmark."""
    script, home = same_training.play.HERE / "scripts" / "own_word.py", same_training.play.HERE
    looked_for = "importlib.util.find_spec('torch')"  # as libraries do before they import it
    code = (
        f"import importlib.util, sys, runpy; sys.path.append({str(home)!r}); import observer; {looked_for}; "
        "runpy.run_path(sys.argv.pop(1), None, '__main__')"
    )
    (folder / "seen").mkdir(parents=True)
    env = {**os.environ, observer.OUT: str(folder / "seen"), "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", code, str(script), "--epochs", "1", *flags], cwd=folder, env=env, check=True)
    return measure.read(folder / "seen", full_run=False)


def test_a_row_is_the_same_wherever_its_run_has_its_files() -> None:
    import torch

    row, moved, other = ({"img": torch.ones(2), "im_file": name} for name in ("/one/a.jpg", "/two/a.jpg", "/two/b.jpg"))
    assert observer.content(torch, row) == observer.content(torch, moved) != observer.content(torch, other)


def test_ranks_are_held_against_each_other_one_by_one(tmp_path: Path) -> None:
    """A second rank that steps by another gradient, on other rows, is seen."""
    import torch

    def wrote(folder: Path, *gradients: float) -> Any:
        folder.mkdir()
        for rank, gradient in enumerate(gradients):
            flat = {key: torch.ones(3) for key in ("first", "after_first", "last")}
            one = {**flat, "kind": "SGD", "gradient": torch.full((3,), gradient), "rates": [[0.1]], "rows": [2]}
            rows = [f"{rank}-{at}" for at in range(2)]
            torch.save({"rank": rank, "full_run": False, "optimizers": [one], "rows": rows}, folder / f"{rank}.pt")
        return measure.read(folder, full_run=False)

    plain = wrote(tmp_path / "plain", 1.0, 1.0)
    assert plain["rows"] == ["0-0", "1-0", "0-1", "1-1"]
    itself = measure.compare(plain, wrote(tmp_path / "itself", 1.0, 1.0), kept=None)
    assert (itself.gradient, itself.rows, itself.steps) == (0.0, (4, 4), (1, 1))
    assert measure.compare(plain, wrote(tmp_path / "other", 1.0, 2.0), kept=None).gradient > 0.5


@pytest.mark.slow
def test_the_observer_sees_an_update_that_is_twice_the_asked_one(tmp_path: Path) -> None:
    """48 rows, 8 and 2x4 of them, the micro-batches added up: twice the gradient, all else alike."""
    plain = seen(tmp_path / "plain", "--batch-size", "8")
    other = seen(tmp_path / "other", "--batch-size", "4", "--grad-accum-steps", "2", "--undivided")
    found = measure.compare(plain, other, kept=(tmp_path / "plain" / "model.pt", tmp_path / "other" / "model.pt"))
    assert found.factor == pytest.approx(2, abs=1e-5) and found.gradient == pytest.approx(1, abs=1e-5) and found.residue < 1e-5
    assert (found.steps, found.rows, found.same_rows, found.rates, found.start) == ((6, 6), (48, 48), True, "", 0.0)
    assert found.weights > 0.1 and found.kept is not None and found.kept > 0.01
    itself = measure.compare(plain, plain, kept=None)
    assert (itself.gradient, itself.weights, itself.kept) == (0.0, 0.0, None)
    assert list(judge.differences(found, CASE)) == ["gradient"] and not judge.differences(itself, CASE)


# -- the page ---------------------------------------------------------------------------------------------------------------


def test_the_page_says_the_counts_first_and_each_silent_difference() -> None:
    silent = row("masked", verdict=judge.SILENT, differs={"gradient": "the first update by 3.2e+00"})
    page = table.document([row(), silent, row(rung="1x8", verdict=judge.NOT_PLAYED, measured=None)])
    assert "**2 trainings, 1 silent differences, 0 false alarms.**" in page
    assert f"{len(list(cases.plays())) - 3} of {len(list(cases.plays()))} trainings haven't been played yet" in page
    assert page.index("**2 trainings") < page.index("## By kind and rung") < page.index("## Silent difference")
    assert "| masked | 2x4 | abc1234 | effective batch as asked | gradient: the first update by 3.2e+00 |" in page


def test_a_row_that_was_played_again_stands_in_place_of_the_first() -> None:
    page = table.document([row(verdict=judge.SILENT, commit="old", differs={"steps": "3 optimizer steps instead of 12"}), row()])
    assert "**1 trainings, 0 silent differences" in page and "abc1234 (1)" in page and "## Silent difference" not in page
    assert f"| plain | 2x4 | old | steps: 3 optimizer steps instead of 12 | {judge.SAME} |" in page
