"""Logs are explained as what they are: cases in tests/data/logs; held_out.yaml was written before the code, from other sources."""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from autofit_launcher.cli.main import run
from autofit_launcher.common.sizes import parse_size
from autofit_launcher.explain.explanation import explain
from autofit_launcher.explain.known import table
from autofit_launcher.explain.plain import plain
from autofit_launcher.full_run.cause import Ended, RunEnd, find
from autofit_launcher.history.run_folder import RunFolder
from tests.helpers import run_folders
from tests.helpers.places import ROOT

LOGS = ROOT / "tests" / "data" / "logs"
CASES = [
    {"log": (LOGS / "pasted" / f"{case['name']}.txt").read_text(encoding="utf-8") if name == "pasted" else "", **case}
    for name in ("explained", "held_out", "pasted")
    for case in yaml.safe_load((LOGS / f"{name}.yaml").read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_log_is_explained_as_what_it_is(case: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = explain(case["log"])
    assert said.kind == case["kind"], said
    for name in {"phase", "trainer"} & case.keys():
        assert getattr(said, name) == case[name], said
    for name in {"asked", "total", "free", "allocated", "ours", "others"} & case.keys():
        told = getattr(said.figures, name)
        assert told is not None and abs(told - _bytes(case[name])) <= 1, said
    if "best" in case:
        assert said.changes[0].startswith(case["best"]), said.changes
    assert (said.memory is True) is bool(table().kinds[case["kind"]].memory)
    if said.memory is not False:
        assert said.line and any(said.line in line for line in plain(case["log"]))
        assert said.changes or said.kind in ("maybe", "foreign")
    (tmp_path / "train.log").write_text(case["log"], encoding="utf-8")
    assert run(["explain", str(tmp_path / "train.log")]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert case.get("says", "") in words, words


@pytest.mark.parametrize("before", ["> ", "    ", "2025-09-14 03:12:51 ERROR ", "[rank3]: ", "trainer-1  | ", "\n"])
def test_what_people_paste_before_each_line_changes_nothing(before: str) -> None:
    for log in (case["log"] for case in CASES):
        said, plainly = explain("\n".join(before + line for line in log.split("\n"))), explain(log)
        assert (said.kind, said.phase, said.figures, said.trainer) == (plainly.kind, plainly.phase, plainly.figures, plainly.trainer), log


def _bytes(size: Any) -> int:
    text = str(size).replace(" bytes", "")
    return int(text) if text.isdigit() else parse_size(text)


@pytest.mark.parametrize("word", ["1", " ", "hello\n", "0.1.", '"', "> ", "1/2 ", "if out of ", "pin memory "])
def test_a_megabyte_of_anything_is_answered_in_two_seconds(word: str) -> None:
    begun = time.process_time()
    explain(word * (1_000_000 // len(word)))
    assert time.process_time() - begun < 2


def test_standard_input_json_and_what_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    log = next(case["log"] for case in CASES if case.get("phase") == "optimizer")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(log.encode())))
    assert run(["explain", "-", "--json"]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said["kind"] == "allocator" and said["memory"] is True and said["figures"]["asked"] and said["source"] == "standard input"
    assert run(["explain", "gone.log"]) == 1 and "gone.log" in capsys.readouterr().err
    assert run(["explain", "a", "b"]) == 1


def test_a_run_is_explained_by_what_its_trainer_said_last(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = RunFolder(run_folders.ended(tmp_path, "failed"))
    log = next(case["log"] for case in CASES if case.get("trainer") == "Ultralytics" and case.get("phase") == "validation")
    files = folder.attempt(1)
    files.stderr.parent.mkdir(parents=True, exist_ok=True)
    files.stdout.write_text("", encoding="utf-8")
    files.stderr.write_text(log, encoding="utf-8")
    assert run(["explain", str(folder.path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "validation takes twice the training batch" in said and f"autofit resume {folder.path}" in said


def test_source_in_a_traceback_is_no_failure_of_memory() -> None:
    log = next(case["log"] for case in CASES if case["name"].startswith("source within"))
    assert find(RunEnd(returncode=1, words=log)).ended is Ended.CRASHED
