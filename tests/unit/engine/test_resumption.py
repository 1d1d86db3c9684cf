"""What `autofit resume` refuses, in one message each, with nothing changed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.config import recipe
from autofit_launcher.engine import prepare
from autofit_launcher.errors import BadInput
from autofit_launcher.history.records import FORMAT
from autofit_launcher.trainers.suite import snapshot
from tests.helpers import script
from tests.helpers.children import child

RECIPE = script.recipe(sys.executable, "train.py", ask={"micro_batch": 4}, spelled={"micro_batch": "--batch-size"})


def run_folder(place: Path, **record: Any) -> Path:
    folder = place / "run"
    folder.mkdir()
    said = {"format": FORMAT, "status": "interrupted", "trials": [], "attempts": [], "cwd": str(place), "chosen_rung_index": None, **record}
    (folder / "record.json").write_text(json.dumps(said))
    (folder / "recipe.yaml").write_text(recipe.as_yaml(RECIPE))
    return folder


def refusal(folder: Path, *words: str) -> str:
    before = snapshot(folder) if folder.is_dir() else {}
    with pytest.raises(BadInput) as refused:
        prepare.resumable(str(folder), words)
    assert (snapshot(folder) if folder.is_dir() else {}) == before
    assert len(refused.value.faults) == 1
    return str(refused.value)


def test_an_interrupted_run_is_read_as_it_was_launched(tmp_path: Path) -> None:
    found = prepare.resumable(str(run_folder(tmp_path)), ["recover.allow_restart=true", "device.memory=2GiB"])
    assert found.draft.recipe is not None and found.record.cwd == str(tmp_path) and not found.done
    assert found.draft.recipe.recover.allow_restart and found.draft.recipe.device.memory == 2**31
    assert found.draft.recipe.model_copy(update={"recover": RECIPE.recover, "device": RECIPE.device}) == RECIPE


def test_a_folder_that_is_not_there_or_is_no_run(tmp_path: Path) -> None:
    assert "there is no such folder" in refusal(tmp_path / "nowhere")
    (tmp_path / "data").mkdir()
    assert "it isn't a run of autofit" in refusal(tmp_path / "data")
    (tmp_path / "data" / "record.json").write_text("{torn")
    assert "it isn't a run of autofit" in refusal(tmp_path / "data")


def test_a_record_that_is_torn_is_told_from_a_folder_that_is_no_run(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    (folder / "record.json").write_text((folder / "record.json").read_text()[:40])
    said = refusal(folder)
    assert "record.json: the run's record is torn" in said and "isn't a run" not in said and "command.sh" in said


@pytest.mark.parametrize(("record", "words", "said"), [
    ({"attempts": [{"left": "all of them"}]}, (), "another autofit's"), ({"format": 3}, (), "has the format 3"),
    ({"format": 1}, (), "format 1"), ({"status": "no_rung_fits"}, (), "never came to a full run: no_rung_fits"),
    ({"status": "vacuous"}, (), "full run: vacuous"), ({"status": "done"}, (), "only trials were asked"),
    ({"cwd": "/nowhere/moved"}, (), "is gone"), ({}, ("ask.micro_batch=2",), "can't be said here"),
    ({}, ("recover.restart=2",), "Known here"),
])  # fmt: skip
def test_what_can_not_be_gone_on_with_is_refused(record: dict[str, Any], words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    assert said in refusal(run_folder(tmp_path, **record), *words)


HOLDS = """
import sys, time
from pathlib import Path
from autofit_launcher.history import owner
with owner.owning(Path(sys.argv[1])):
    print(flush=True)
    time.sleep(3600)
"""


def test_a_run_that_runs(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    with child(HOLDS, str(folder)) as other:
        assert f"process {other.pid} runs it just now" in refusal(folder)
    assert prepare.resumable(str(folder)), "its owner was killed"


@pytest.mark.parametrize("edited", [
    {"attempts": [{"rung_index": 0, "rung": {"micro_batch": 64}}]}, {"attempts": [{"rung_index": -1}]},
    {"trials": [{"rung_index": 77, "verdict": "fits"}]}, {"trials": [{"verdict": "marvellous"}]}, {"chosen_rung_index": 1},
])  # fmt: skip
def test_attempts_and_trials_of_another_ladder(tmp_path: Path, edited: dict[str, Any]) -> None:
    from autofit_launcher.adapter.build import ladder_of
    from autofit_launcher.adapter.registry import load_adapter

    found, ladder = prepare.resumable(str(run_folder(tmp_path, **edited))), ladder_of(load_adapter("script")(RECIPE))
    with pytest.raises(BadInput, match="aren't those of its recipe's ladder"):
        found.attempts(ladder), found.trials(ladder)
