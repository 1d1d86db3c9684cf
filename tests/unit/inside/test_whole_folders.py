"""accelerate's ``save_state`` over the folder of the save before, killed while it writes any of its files: what is there is one save's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("accelerate")
pytestmark = pytest.mark.slow

SAVES = """
import os, signal, sys
from autofit_launcher.inside import whole_saves

if sys.argv[1] == "whole":
    whole_saves.install()
import torch
from accelerate import Accelerator

out, dies_at, seen = sys.argv[2], int(sys.argv[3]), [0]

def saves(*args, plain=torch.save, **named):
    seen[0] += 1
    if seen[0] == dies_at:
        os.kill(os.getpid(), signal.SIGKILL)
    plain(*args, **named)

accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(4, 4)
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
if os.path.isdir(out) and not dies_at:
    accelerator.load_state(out)
    print(int(model.weight.mean()), {int(one["lr"]) for one in optimizer.param_groups})
    sys.exit()
for number in (1, 2):
    torch.nn.init.constant_(model.weight, number)
    optimizer.param_groups[0]["lr"] = number
    said = accelerator.save_state(out)
    torch.save = saves  # the second save is the one that is killed
print(said)
"""
"""Words: whole or plain, the folder, the file of the second save before which it is killed (0: it loads what is there)."""


def run(how: str, place: Path, dies_at: int) -> str:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    words = [sys.executable, "-c", SAVES, how, str(place), str(dies_at)]
    ended = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    return ended.stdout.strip() or "killed"


@pytest.mark.parametrize(("how", "left"), [("whole", "1 {1}"), ("plain", "2 {1}")])
def test_a_kill_between_two_files_leaves_one_save(how: str, left: str, tmp_path: Path) -> None:
    """Plainly the weights are the new save's, the optimizer the old one's: what it is for."""
    place = tmp_path / "last"
    assert run(how, place, 1) == "killed"
    assert run(how, place, 0) == left
    (place / "events.log").touch()
    assert run(how, place, 99) == str(place) and run(how, place, 0) == "2 {2}"
    assert os.listdir(tmp_path) == ["last"] and (place / "events.log").exists(), "what the killed one left is gone, what is theirs is not"
