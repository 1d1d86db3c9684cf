"""Rows of `make versions` are kept one per point, and the table says of each what works; the slow tests really try three points."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.common.rows import Row
from benchmarks.versions import play, table
from benchmarks.versions.cases import POINTS


def row(point: str, **more: object) -> Row:
    return {
        "point": point, "trainer": "ultralytics", "installed": True,
        "versions": {"python": "3.11.9", "ultralytics": "8.4.150", "numpy": "2"},
        "tests": {"passed": 9, "skipped": 0, "failed": []}, "run": "ended",
        "fit": {"rung_index": 1, "effective_batch": 8, "trials": ["0: out_of_memory", "1: fits"]}, **more,
    }  # fmt: skip


def test_a_point_tried_again_has_one_row_and_a_torn_line_is_none(tmp_path: Path) -> None:
    path = tmp_path / "versions.jsonl"
    table.write(path, row("yolo-8.4.150", run="it did not"))
    with path.open("a") as file:
        file.write('{"point": "yolo-8.')
    table.write(path, row("yolo-8.3.0"))
    table.write(path, row("yolo-8.4.150"))
    assert {name: one["run"] for name, one in table.read(path).items()} == {"yolo-8.4.150": "ended", "yolo-8.3.0": "ended"}


def test_a_point_that_was_interrupted_is_tried_again() -> None:
    assert not table.finished(None)
    assert not table.finished(row("yolo-8.3.0"))
    assert table.finished(row("yolo-8.3.0", seconds=300))
    assert table.finished({"point": "yolo-8.3.0", "installed": False, "why": "no such version"})


def test_the_table_says_what_fails_and_what_cannot_be_installed() -> None:
    failing = row("yolo-8.4.150", tests={"passed": 8, "skipped": 0, "failed": ["a"]})
    gone = {"point": "yolo-8.3.0", "installed": False, "why": "no such version"}
    lines = table.table([failing, gone]).splitlines()[2:]
    assert lines == [
        "| yolo-8.3.0 | can't be installed: no such version | | |",
        "| yolo-8.4.150 | python 3.11.9, ultralytics 8.4.150 | 8 passed, 1 failed: a "
        "| rungs 0: out_of_memory, 1: fits; effective batch 8; run ended |",
    ]


def test_the_summary_names_each_version_of_a_row_that_works_and_no_other() -> None:
    beside = {"torch": "2.8.0", "python": "3.11.9"}
    assert table.summary([]) == "No environment has been run to its end yet."
    rows = [
        row("yolo-8.3.100", seconds=9, versions={"ultralytics": "8.3.100", **beside}),
        row("yolo-8.3.2", seconds=9, versions={"ultralytics": "8.3.2", **beside, "python": "3.12.1"}),
        row("lightning-2.2.5", trainer="script", seconds=9, versions={"lightning": "2.2.5", "transformers": "5.0", **beside}),
        row("yolo-8.4.0", seconds=9, versions={"ultralytics": "8.4.0", **beside, "torch": "2.4.1"}, run="no end"),
    ]
    assert table.summary(rows) == (
        "Everything passed in 3 environments: Ultralytics 8.3.2, 8.3.100; Lightning 2.2.5; torch 2.8.0; Python 3.11.9, 3.12.1."
    )


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


def test_an_error_of_the_installer_is_kept_without_the_index_it_came_from() -> None:
    assert play._last_line("x\nno solution: see https://index.example/simple/torch for it\n\n") == "no solution: see (an index) for it"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["yolo-8.3.0", "yolo-8.4.150", "text-4.57.6"])
def test_a_point_between_the_pinned_ones_fits_and_runs(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    found = play.tried(POINTS[name], tmp_path_factory.mktemp("versions"))
    if not found["installed"]:
        pytest.skip(f"its environment can't be made here: {found['why']}")
    assert (found["tests"]["failed"], found["run"]) == ([], "ended")
    assert found["fit"]["rung_index"] > 0 and set(map(verdict, found["fit"]["trials"])) == {"out_of_memory", "fits"}
