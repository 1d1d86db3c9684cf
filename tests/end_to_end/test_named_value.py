"""A value that a person names with --set, in a whole launch below its need: fitted, run to the end, and the plain run's weights."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.command_line import answer, autofit
from tests.helpers.places import SCRIPTS


@pytest.mark.slow
def test_a_value_that_is_named_is_turned_in_trials_and_in_the_run(tmp_path: Path) -> None:
    import torch

    shutil.copy(SCRIPTS / "batch_sampler_of_config.py", tmp_path / "train.py")
    for words in (("init", "-q"), ("add", "-A"), ("-c", "user.name=me", "-c", "user.email=me@here", "commit", "-qm", "mine")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    command = (sys.executable, "train.py", "--out")
    subprocess.run([*command, str(tmp_path.parent / "plain.pt")], cwd=tmp_path, check=True)
    words = ("run", "--set", "CONFIG['batch']", "device=cpu", "device.memory=118MiB", "--json", "--")
    done = autofit(*words, *command, str(tmp_path.parent / "small.pt"), cwd=tmp_path, timeout=900)
    said = answer(done)
    assert (done.returncode, said["status"]) == (0, "done"), done.stderr[-3000:]
    assert said["rung_index"] > 0 and said["effective_batch"] == said["effective_batch_asked"] == 2048
    assert "value:train.py:CONFIG['batch'] (train.py line 9: CONFIG['batch'] = 2048)" in done.stderr
    assert said["same_training"]["verdict"] == "same", said["same_training"]
    plain, small = (torch.load(tmp_path.parent / name) for name in ("plain.pt", "small.pt"))
    assert max(float((plain[name] - small[name]).norm() / plain[name].norm()) for name in plain) < 1e-5
    status = subprocess.run(["git", "status", "--porcelain", "-uall"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert not status, "the person's folder is as it was"
