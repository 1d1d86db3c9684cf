"""The page of a run: what it says, that nothing of it is markup of a trainer's, and that nothing about it fails a launch."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.cli.main import run
from autofit_launcher.cli.report import at_the_end
from autofit_launcher.cli.say import Terminal
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.history.runs import run_in
from autofit_launcher.page import page
from tests.helpers.reported import NASTY, reported


def text_of(html: str) -> str:
    body = re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def changed(folder: RunFolder, **more: Any) -> str:
    """The page's words after its record was changed so."""
    record = json.loads(folder.record.read_text(encoding="utf-8"))
    folder.replace_json(folder.record, {**record, **more})
    return text_of(page.render([run_in(folder.path)]))


def test_it_says_why_the_rung_was_chosen_and_what_became_of_each(tmp_path: Path) -> None:
    said = text_of(page.render([run_in(reported(tmp_path))]))
    assert "It trains with image size 320 in place of 640, since what was asked for needs more memory than there is." in said
    assert "Really tried, and failed: rung 0, 1." in said and "at least as much as one that failed: rung 2." in said
    assert "Rung 3 (micro_batch 8, accumulation 1, image_size 320) is the best that fits: its trial needed 560 MiB" in said
    assert "ruled out by rung 1" in said and "out of memory in train" in said and "not tried" in said
    assert "Attempt 1 of the full run: killed in train (" in said and "it was killed: the same rung once more." in said
    assert "python 3.11.7, torch 2.15.0, ultralytics 8.4.190, cuda 13.0, driver 580.65.06" in said


@pytest.mark.parametrize(("more", "said"), [
    ({"same_training": {"verdict": "same"}}, "nothing is given up but speed"),
    ({"same_training": {"verdict": "not_comparable"}}, "that it is the same training: not comparable"),
    ({}, "that it is the same training: not shown"),
    ({"effective_batch": 4, "effective_batch_asked": 8}, "The effective batch is 4 in place of 8"),
])  # fmt: skip
def test_only_what_was_shown_to_be_the_same_training_is_said_to_give_up_nothing(more: dict[str, Any], said: str, tmp_path: Path) -> None:
    html = changed(RunFolder(reported(tmp_path)), given_up={"micro_batch": {"asked": 8, "used": 4}}, **more)
    assert said in html and ("nothing is given up" in html) is ("nothing" in said)


def test_what_a_trainer_said_is_shown_and_is_no_markup(tmp_path: Path) -> None:
    html = page.render([run_in(reported(tmp_path))])
    assert NASTY not in html and "&lt;/script&gt;" in html and "<script" not in html
    assert not re.search(r"(src|href)=\"(?!data:)|url\(|@import|https?://", html), "it asks something of a network"


def test_a_run_that_is_torn_or_empty_still_has_a_page_and_whatever_goes_wrong_fails_no_launch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder.create(tmp_path, "empty")
    assert "empty" in page.render([run_in(folder.path)])
    folder.record.write_text("{", encoding="utf-8")
    with at_the_end(folder, Terminal(as_json=False)):
        pass
    assert f"report  {folder.report}" in capsys.readouterr().out
    folder.report.unlink()
    folder.report.mkdir()
    with at_the_end(folder, Terminal(as_json=False)):
        pass
    assert "no report was written" in capsys.readouterr().err


def test_the_verb_writes_into_the_run_and_several_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = reported(tmp_path / "runs/autofit"), reported(tmp_path / "runs/autofit", "other")
    assert run(["report", one.name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["report"] == str(one / "report.html")
    assert run(["report", one.name, str(two)]) == 0
    assert "2 runs side by side" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert run(["report", "gone"]) == 1 and run(["report", "--wide", one.name]) == 1
