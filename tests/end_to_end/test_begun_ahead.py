"""The full run is begun while its rung is tried: it is the plain command's to the bit, and where it isn't launched nobody sees of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import launched_with
from tests.helpers.command_line import answer, autofit
from tests.helpers.pretended import needs_a_pretended_card, played

TRAIN = """
import argparse, pathlib, sys, threading, time
import torch
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--late", type=int, default=0)
parser.add_argument("--device", default="cpu")
parser.add_argument("--watched", action="store_true")
args = parser.parse_args()
print("begins", flush=True)
if args.watched:
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
torch.manual_seed(0)
if args.device == "cuda":
    torch.cuda.set_device(0)
out = pathlib.Path("out")
out.mkdir()
with (out / "log.csv").open("w") as log:
    model = torch.nn.Linear(8, 2).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(TensorDataset(torch.randn(96, 8)), batch_size=args.batch_size, shuffle=True)
    for epoch in range(2):
        for (x,) in loader:
            time.sleep(0.2)
            loss = model(x.to(args.device)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            print(float(loss), file=log)
        model.eval()
        with torch.no_grad():
            for (x,) in DataLoader(TensorDataset(torch.randn(32, 8)), batch_size=16):
                model(x.to(args.device))
                late = torch.ones(args.late << 18)
        model.train()
torch.save(model.state_dict(), out / "last.pt")
"""
HOLDS = "AUTOFIT_PLACE"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def as_plainly(place: Path, *words: str, budget: str, **env: str) -> None:
    """Runs the script plainly and by autofit."""
    argv = (sys.executable, "train.py", *words)
    subprocess.run(argv, cwd=place, check=True, env={**os.environ, **env})
    (place / "out").rename(place / "plain")
    done = autofit("run", *budget.split(), "--json", "--", *argv, cwd=place, **env)
    said = answer(done)
    assert (done.returncode, said["status"], len(said["trials"])) == (0, "done", 1), done.stderr
    folder = Path(said["run_dir"])
    begun, turn = ((folder / "native" / name).stat().st_mtime for name in ("budget.json", "turn"))
    assert begun < Path(said["trials"][0]["folder"], "verdict.json").stat().st_mtime <= turn <= (place / "out" / "log.csv").stat().st_ctime
    assert trained(place) == {path.name: path.read_bytes() for path in (place / "plain").iterdir()}
    assert said["attempts"][0]["seconds"] < time.time() - turn and len(list((folder / "held").glob("*.steps"))) == 1
    assert said["memory"]["run_peak_bytes"] <= 1.02 * said["memory"]["trial_peak_bytes"]


def trained(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (place / "out").iterdir()}


def test_it_is_the_plain_command_to_the_bit_and_has_waited_before_it_made_its_folder(place: Path) -> None:
    as_plainly(place, budget="device=cpu device.memory=2GiB")


def test_where_a_thread_would_wait_for_it_in_vain_it_is_begun_anew(place: Path) -> None:
    argv = (sys.executable, "train.py", "--watched")
    plain = subprocess.run(argv, cwd=place, check=True, capture_output=True).stdout
    (place / "out").rename(place / "plain")
    said = answer(autofit("run", "device=cpu", "device.memory=2GiB", "--json", "--", *argv, cwd=place))
    folder = Path(said["run_dir"])
    assert said["status"] == "done" and not (folder / "native" / "turn").exists() and (folder / "run.stdout.log").read_bytes() == plain
    assert trained(place) == {path.name: path.read_bytes() for path in (place / "plain").iterdir()}


@pytest.mark.slow
@needs_a_pretended_card
def test_on_a_card_it_waits_before_it_uses_it(place: Path) -> None:
    with played() as env:
        as_plainly(place, "--device", "cuda", budget="device.memory=8GiB", **env)


def test_where_its_rung_fails_nothing_is_seen_of_it(place: Path) -> None:
    words = (sys.executable, "train.py", "--batch-size", "1", "--late", "400")
    done = autofit("run", "device=cpu", "device.memory=256MiB", "--json", "--", *words, cwd=place, AUTOFIT_PLACE=str(place))
    said = answer(done)
    assert (done.returncode, said["status"]) == (3, "no_rung_fits"), done.stderr
    folder = Path(said["run_dir"])
    assert (folder / "native" / "budget.json").exists() and not (folder / "native" / "turn").exists()
    assert not (place / "out").exists() and not (folder / "command.sh").exists() and not (folder / "held").exists()
    assert not launched_with(HOLDS, place)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_it_goes_with_the_launcher(number: signal.Signals, place: Path) -> None:
    words = (sys.executable, "-m", "autofit_launcher", "run", "device=cpu", "device.memory=2GiB", "run.root=runs", "--")
    env = {**os.environ, "AUTOFIT_PLACE": str(place)}
    launcher = subprocess.Popen([*words, sys.executable, "train.py"], cwd=place, env=env, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not list(place.glob("runs/*/native/budget.json")) and time.monotonic() < until:
        time.sleep(0.05)
    launcher.send_signal(number)
    launcher.wait(timeout=60)
    until = time.monotonic() + 40
    while launched_with(HOLDS, place) and time.monotonic() < until:
        time.sleep(0.2)
    assert not launched_with(HOLDS, place) and not (place / "out").exists() and not list(place.glob("runs/*/native/turn"))
