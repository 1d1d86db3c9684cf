"""A launch, and what verbs show of it, on a real terminal of 80 columns, by what an emulator says stands there: no line of ours is broken
by the terminal, in mid-word, but for commands, which are one line; nothing of ours is glued to the words of the trainer."""

from __future__ import annotations

import itertools
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import screens

SCRIPT = """
import argparse, torch
from tqdm import tqdm
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()
model = torch.nn.Linear(1024, 1024)  # enough that its memory is seen
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 1024)), batch_size=args.batch_size)
for epoch in range(args.epochs):
    model.train()
    bar = tqdm(data, desc=f"epoch {epoch + 1}/{args.epochs}")
    for (batch,) in bar:
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        bar.set_postfix(loss=f"{loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        for (batch,) in data:
            model(batch)
torch.save(model.state_dict(), "model.pt")
print("the trainer's last words", end="")
"""
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.68 GiB."
KEYS = ("device=cpu", "device.memory=700MiB", "ladder.wheels.micro_batch.floor=8")
COMMAND = ("--", sys.executable, "train.py", "--batch-size", "8")


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder whose path is short, as a person's is: one that is longer than the screen is no fault of autofit's."""
    with tempfile.TemporaryDirectory(prefix="af", dir="/tmp") as folder:
        (Path(folder) / "train.py").write_text(SCRIPT, encoding="utf-8")
        yield Path(folder)


def told(place: Path, *words: str) -> screens.Shown:
    env = {f"XDG_{name}_HOME": str(place / name) for name in ("STATE", "CACHE")}
    seen = screens.autofit(*words, cwd=place, env=env)
    assert seen.status == 0, seen.text
    commands = {after for line, after in itertools.pairwise(seen.lines) if line == "the same without autofit:"}
    assert not set(seen.too_long) - commands, seen.too_long
    assert "…" not in seen.text.replace("… ", ""), "nothing is cut"
    return seen


@pytest.fixture(scope="module")
def launched(place: Path) -> screens.Shown:
    """A whole launch: trials, then the run."""
    return told(place, "run", *KEYS, *COMMAND)


def run_of(place: Path) -> Path:
    return max((place / "runs" / "autofit").iterdir(), key=lambda path: path.stat().st_mtime)


def test_a_launch_from_its_first_word_to_its_last(place: Path, launched: screens.Shown) -> None:
    assert "the trainer's last words" in launched.rows, "what autofit says after it begins on a line of its own"
    bars = [row for row in launched.rows if "8/8 [" in row]
    assert len(bars) == 2 and all(row.startswith("epoch") and "loss=" in row for row in bars), "each is one row"
    text = " ".join(launched.text.split())
    assert str(run_of(place)) in text and "fits" in text
    assert "held to" not in text


def test_its_progress_is_known_and_told_by_runs_and_watch(place: Path, launched: screens.Shown) -> None:
    name = run_of(place).name
    seen = told(place, "runs")
    assert any(name in row.split() for row in seen.rows) and "epoch 2/2" in " ".join(seen.text.split()) and "100%" in seen.text
    assert name in told(place, "runs", "--peaks").text
    assert re.search(r"done .*100%", told(place, "watch", name).text)
    assert "step" in (run_of(place) / "series.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [
    ("fits",), ("stop", "RUN"), ("resume", "RUN"), ("logs", "RUN"), ("show", "yolo_demo"), ("report", "RUN"), ("explain", "oom.log"),
])  # fmt: skip
def test_verbs_of_what_is_there(place: Path, launched: screens.Shown, words: tuple[str, ...]) -> None:
    (place / "oom.log").write_text(OOM, encoding="utf-8")
    told(place, *(str(run_of(place)) if word == "RUN" else word for word in words))
