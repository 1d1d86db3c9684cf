"""Commands whose batch can't be kept, from the words to the record: what fits is told, and only launched where it was accepted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers.command_line import answer, autofit
from tests.helpers.places import SCRIPTS

SCRIPT = str(SCRIPTS / "can_not_be_accumulated.py")
COMMAND = (sys.executable, SCRIPT, "--way", "no_loader", "--width", "8192", "--batch-size", "4096")
DEVICE = ("device=cpu", "device.memory=360MiB")


@pytest.mark.slow
def test_where_only_another_batch_fits_the_end_says_which_and_launches_nothing(tmp_path: Path) -> None:
    done = autofit("run", *DEVICE, "--json", "--", *COMMAND, cwd=tmp_path)
    said = answer(done)
    assert done.returncode == 3 and said["status"] == "no_rung_fits" and said["command"] is None
    assert [trial["verdict"] for trial in said["trials"]] == ["out_of_memory", "altered"]
    (could,) = said["could_fit"]
    assert could["flag"] == "--allow-batch" and could["rung"]["micro_batch"] < 4096
    words = " ".join(done.stderr.split())
    assert "autofit run --allow-batch -- ..." in words and "is estimated to fit" in words and "for SGD" in words


@pytest.mark.slow
def test_a_person_may_accept_another_batch(tmp_path: Path) -> None:
    done = autofit("run", "--fit-only", "--allow-batch", *DEVICE, "--json", "--", *COMMAND, cwd=tmp_path)
    said = answer(done)
    assert said["status"] == "done" and said["effective_batch"] < said["effective_batch_asked"] == 4096
    assert said["accumulation"] == 1 and "ACCUMULATE" not in said["command"]
    assert "goes down with the micro-batch" in done.stderr and "divide it by" in done.stderr
