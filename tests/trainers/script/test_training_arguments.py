"""Settings with which a script's source calls a known trainer: the first trial shows them, and a lower rung sets them there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.command_line import answer, autofit
from tests.helpers.places import SCRIPTS


@pytest.mark.slow
def test_a_script_with_its_settings_in_a_dict_trains_the_same_in_less_memory(tmp_path: Path) -> None:
    """Nothing of the person's is changed, and the weights at the end are the plain run's, to rounding."""
    script = tmp_path / "train.py"
    script.write_text((SCRIPTS / "hf_settings_in_code.py").read_text(encoding="utf-8"))
    plain = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([sys.executable, str(script)], cwd=tmp_path, env=plain, check=True, capture_output=True)
    (tmp_path / "weights.pt").rename(tmp_path / "plain.pt")
    before = script.read_bytes()
    done = autofit("run", "--json", "device=cpu", "device.memory=312MiB", "--", sys.executable, str(script), cwd=tmp_path, timeout=580)
    said = answer(done)
    assert said["status"] == "done" and said["effective_batch"] == said["effective_batch_asked"] == 32
    assert said["rung"]["micro_batch"] < 32 and said["steps"]["made"] == 6
    assert said["same_training"]["gradient"] == "proven" and script.read_bytes() == before
    apart = "import torch, json; a, b = torch.load('plain.pt'), torch.load('weights.pt'); " + (
        "print(json.dumps(max(((a[k] - b[k]).abs().max() / a[k].abs().max()).item() for k in a)))"
    )
    assert json.loads(subprocess.run([sys.executable, "-c", apart], cwd=tmp_path, check=True, capture_output=True).stdout) < 1e-4
