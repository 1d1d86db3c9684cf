"""accelerate's ``save_state`` over the folder of the save before, killed between any two of its files: what is there is one save's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.trainers.script import resuming
from tests.helpers.saved import whole

pytest.importorskip("accelerate")
pytestmark = pytest.mark.slow

SAVES = """
import os, signal, sys
from pathlib import Path
from launcher.inside import whole_saves

whole = sys.argv[1] == "whole"
if whole:
    whole_saves.install()
import torch
from accelerate import Accelerator
torch.set_num_threads(1)  # forked children must not wait for threads that only their parent has

class Counter:
    step = 0

    def state_dict(self):
        return {"step": self.step}

    def load_state_dict(self, said):
        self.step = said["step"]

def begin():
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    model = torch.nn.Linear(4, 4)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    counter = Counter()
    accelerator.register_for_checkpointing(counter)
    return accelerator, model, optimizer, counter

def state(model, optimizer, counter):
    steps = {int(one["step"]) for one in optimizer.state.values()}
    return f"{counter.step} {steps} {sum(weights.sum().item() for weights in model.parameters())}"

def trains(out):
    accelerator, *training = begin()
    for step in range(2):
        accelerator.backward(training[0](torch.ones(2, 4)).square().sum())
        training[1].step()
        training[1].zero_grad()
        training[2].step += 1
        print(state(*training))
        armed[0] = step == 1
        said = accelerator.save_state(str(out))
    print(said, seen[0])

def loads(out):
    accelerator, *training = begin()
    accelerator.load_state(out)
    print(state(*training))

seen, armed, dies_at = [0], [False], [0]

def dies():
    if armed[0]:
        seen[0] += 1
        if seen[0] == dies_at[0]:
            os.kill(os.getpid(), signal.SIGKILL)

def moves(event, args):
    if event in ("os.rename", "os.mkdir", "os.rmdir", "os.remove"):
        dies()

def saves(*args, plain=torch.save, **named):
    dies()
    plain(*args, **named)

torch.save = saves
sys.addaudithook(moves)
for word in sys.argv[2:]:
    what, place, dies_at[0] = *word.split(":")[:2], int(word.split(":")[2])
    if (child := os.fork()) == 0:
        {"trains": trains, "loads": loads}[what](Path(place))
        sys.stdout.flush()
        os._exit(0)
    print("status", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Words: whole or plain, then what each of several forked processes does where, and at which of its moves it is killed."""


def run(how: str, *words: str) -> list[str]:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    return subprocess.run(
        [sys.executable, "-c", SAVES, how, *words], env=env, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def found(place: Path) -> Path:
    """What autofit would go on from."""
    saves = resuming.Saves(ends_with=("custom_checkpoint_*.pkl", "random_states_*.pkl"))
    return whole(resuming.look(saves.begun(resuming.found(str(place))), program="no-such-program", saves=saves))[0].path


def test_it_is_one_saves_wherever_the_kill_comes(tmp_path: Path) -> None:
    first, second, last, _ = run("whole", f"trains:{tmp_path / 'last'}:0")
    place, moves = last.split()
    assert place == str(tmp_path / "last") and os.listdir(tmp_path) == ["last"]
    places = [tmp_path / str(number) / "last" for number in range(1, int(moves) + 1)]
    killed = run("whole", *(f"trains:{place}:{number}" for number, place in enumerate(places, start=1)))
    assert killed[2::3] == [f"status {-signal.SIGKILL}"] * len(places)
    loaded = run("whole", *(f"loads:{found(place)}:0" for place in places))[::2]
    assert set(loaded) == {first, second}
    run("whole", *(f"trains:{place}:0" for place in places))
    assert all(os.listdir(place.parent) == ["last"] for place in places), "it saves again, and what the killed ones left is gone"


def test_without_it_files_of_two_saves_are_loaded(tmp_path: Path) -> None:
    """What it is for."""
    first, second, last, *_ = run("plain", f"trains:{tmp_path / 'all'}:0")
    moves = int(last.split()[1])
    run("plain", *(f"trains:{tmp_path / str(number) / 'last'}:{number}" for number in range(1, moves + 1)))
    loaded = run("plain", *(f"loads:{found(tmp_path / str(number) / 'last')}:0" for number in range(1, moves + 1)))[::2]
    assert not set(loaded) <= {first, second}


def test_a_folder_with_anything_else_in_it_stays_where_it_is(tmp_path: Path) -> None:
    """Logs that are open, checkpoints of its own below it."""
    place = tmp_path / "last"
    place.mkdir()
    (place / "events.log").touch()
    before = place.stat().st_ino
    assert run("whole", f"trains:{place}:0")[-1] == "status 0"
    assert place.stat().st_ino == before and {"events.log", "model.safetensors"} < set(os.listdir(place))
