"""Scripts that take a whole batch in parts by themselves, as karpathy's do: one value is turned, and the step stays what it was."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autofit_launcher.trainers.script.recognise import understand
from tests.helpers.command_line import answer, autofit
from tests.helpers.places import SCRIPTS

APART = (
    "import json, torch; a, b = torch.load('plain.pt'), torch.load('weights.pt'); "
    "print(json.dumps(max(((a[k] - b[k]).norm() / a[k].norm()).item() for k in a)))"
)


@pytest.mark.slow
@pytest.mark.parametrize(("script", "named", "words"), [
    ("whole_batch_flags", (), ("--device-batch-size=16",)), ("whole_batch_constants", ("--set", "B"), ()),
    ("whole_batch_dict", ("--set", "config['micro_batch_size']"), ()),
])  # fmt: skip
def test_a_lower_rung_trains_the_same_weights(script: str, named: tuple[str, ...], words: tuple[str, ...], tmp_path: Path) -> None:
    shutil.copy(SCRIPTS / f"{script}.py", tmp_path / "train.py")
    shutil.copy(SCRIPTS / "whole_batch.py", tmp_path)
    command = (sys.executable, "train.py", *words)
    plain = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run(command, cwd=tmp_path, env=plain, check=True, capture_output=True)
    (tmp_path / "weights.pt").rename(tmp_path / "plain.pt")
    said = answer(autofit("run", "--json", "device=cpu", "device.memory=113MiB", *named, "--", *command, cwd=tmp_path, timeout=580))
    tried = [(trial["rung"]["micro_batch"] * trial["accumulation"], trial["verdict"]) for trial in said["trials"]]
    assert said["status"] == "done" and {whole for whole, _ in tried} == {64} and tried[0][1] == "out_of_memory", tried
    assert said["effective_batch"] == said["effective_batch_asked"] == 64 and said["same_training"]["gradient"] == "proven"
    done = subprocess.run([sys.executable, "-c", APART], cwd=tmp_path, check=True, capture_output=True)
    assert json.loads(done.stdout) < 1e-4


@pytest.mark.parametrize(("words", "step"), [
    ("--batch_size 8 --micro_batch_size 8 --batch_size_per_group 4", "itself"), ("--batch_size 8 --batch_size_per_group 4", "outside"),
])  # fmt: skip
def test_the_batch_that_a_part_is_of_is_the_one_of_a_usual_name(words: str, step: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    seen = {one.wheel: one for one in understand(["python", str(tmp_path / "train.py"), *words.split()]).beliefs}
    assert (seen["micro_batch"].value, seen["accumulation"].spelling) == (8, step)
