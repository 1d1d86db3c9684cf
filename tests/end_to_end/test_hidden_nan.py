"""A script whose trainer hides that its losses aren't finite: the real one, whose default logs the mean of earlier losses instead."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers.command_line import answer, autofit
from tests.helpers.places import SCRIPTS

COMMAND = (sys.executable, str(SCRIPTS / "hf_trainer.py"), "--output_dir", "out", "--report_to", "none", "--use_cpu", "true")
WORDS = ("device=cpu", "device.memory=900MiB", "--json", "--", *COMMAND, "--num_train_epochs", "1", "--logging_steps", "32")


@pytest.mark.slow
@pytest.mark.parametrize(("more", "status", "evidence"), [
    (["--nan_from", "150", "--save_strategy", "epoch"], "diverged", "out/checkpoint-256"),
    (["--save_strategy", "epoch"], "done", ""),
])  # fmt: skip
def test_a_hugging_face_trainer_that_hides_its_nan_is_not_done(tmp_path: Path, more: list[str], status: str, evidence: str) -> None:
    ended = autofit("run", *WORDS, "--per_device_train_batch_size", "8", *more, cwd=tmp_path)
    said = answer(ended)
    assert (ended.returncode, said["status"]) == (5 if status == "diverged" else 0, status), ended.stderr
    assert evidence in said["attempts"][0]["evidence"]
