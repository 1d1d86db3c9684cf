"""Commands of which something else was read than they run, from the words to the record, with real trials."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.helpers.command_line import answer, autofit
from tests.helpers.places import SCRIPTS

RUN = ("run", "device=cpu", "device.memory=1GiB", "--json", "--")


@pytest.mark.slow
def test_what_a_command_runs_is_what_was_asked_whatever_was_read(tmp_path: Path) -> None:
    (tmp_path / "profile.txt").write_text(json.dumps({"batch_size": 256, "accum": 2}))
    done = autofit(*RUN, sys.executable, str(SCRIPTS / "says_it_elsewhere.py"), cwd=tmp_path)
    said = answer(done)
    assert done.returncode == 0 and said["misread"]["believed"], done.stderr
    assert said["misread"]["read"] == {"micro_batch": 32, "accumulation": 1}
    assert said["misread"]["ran"] == {"micro_batch": 256, "accumulation": 2}
    assert (said["rung"]["micro_batch"], said["accumulation"], said["effective_batch"]) == (256, 2, 512)
    words = " ".join(done.stderr.split())
    assert "misread: the command as it stands ran micro_batch 256 and accumulation 2" in words
    assert "effective batch 512, as asked" in words and "trained 256 x 2" in done.stderr


@pytest.mark.slow
def test_a_typed_word_that_is_not_what_runs_is_asked_about(tmp_path: Path) -> None:
    command = (sys.executable, str(SCRIPTS / "ignores_flags.py"), "--batch-size", "64")
    done = autofit(*RUN, *command, cwd=tmp_path)
    said = answer(done)
    assert done.returncode == 1 and said["status"] == "misread" and said["command"] is None and len(said["trials"]) == 1, done.stderr
    words = " ".join(done.stderr.split())
    assert "ran micro_batch 32, and 64 (--batch-size) had been read" in words and "ask.micro_batch=32" in words
