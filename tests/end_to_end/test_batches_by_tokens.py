"""A training whose batches are bounded by tokens, launched below its need: the same steps, the same weights, told in tokens."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.places import ROOT, SCRIPTS

WORDS = ("train.py", "--max-tokens", "16384", "--width", "512", "--epochs", "2", "--out")


@pytest.mark.slow
def test_batches_by_tokens_keep_their_steps_and_their_weights_in_less_memory(tmp_path: Path) -> None:
    import torch

    shutil.copy(SCRIPTS / "by_tokens.py", tmp_path / "train.py")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path / "home")}
    subprocess.run([sys.executable, *WORDS, "plain.pt"], cwd=tmp_path, env=env, check=True)
    run = ("-m", "launcher", "run", "device=cpu", "device.memory=158MiB", "--json", "--")
    argv = [sys.executable, *run, sys.executable, *WORDS, "small.pt"]
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=900, check=False)
    said = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, said["status"]) == (0, "done"), done.stderr[-3000:]
    assert said["rung_index"] > 0 and said["rung"]["micro_batch"] < 16384
    assert (said["effective_batch"], said["batch_unit"]) == (16384, "tokens")
    assert "effective batch 16,384 tokens, as asked" in done.stderr and "parts:--max-tokens" in done.stderr
    assert said["same_training"]["verdict"] == "same" and said["same_training"]["cure"]["update"] == "targets", said["same_training"]
    assert (said["steps"]["made"], said["steps"]["due"]) == (10, [10, 10]) and "otherwise" not in said["steps"], said["steps"]
    plain, small = torch.load(tmp_path / "plain.pt"), torch.load(tmp_path / "small.pt")
    assert max(float((plain[name] - small[name]).norm() / plain[name].norm()) for name in plain) < 1e-5
