"""A whole batch that a script keeps by itself, found as a division in its source; and whole launches of such a script."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.trainers.script import kept_batch, recognise

NANO = "whole = 4096\nB = 16 # micro batch size\nT = 32\nworld_size = 1\n"


def found(tmp_path: Path, source: str, *, ranks: int = 1) -> tuple[str, int, int] | None:
    script = tmp_path / "train.py"
    script.write_text(source)
    kept = kept_batch.found(script, ranks=ranks)
    return kept and (kept.part.name, kept.part.value, kept.accumulation)


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (NANO + "grad_accum_steps = whole // (B * T * world_size)", ("B", 16, 8)),
        (NANO + "accum_iter = max(1, int(whole / B / T))", ("B", 16, 8)),
        (NANO + "steps = whole // (B * T)", None),  # nothing says that these are micro-batches
        (NANO + "grad_accum_steps = 4000 // (B * T)", None),
        (NANO + "grad_accum_steps = whole // (B * T * other)", None),
        (NANO + "grad_accum_steps = whole // (B * T)\naccumulation_steps = whole // (B * T)", None),
        (NANO + "def f(x):\n    B, T = x.size()\ngrad_accum_steps = whole // (B * T)", ("B", 16, 8)),
        (
            "class C:\n    batch_size = 8\n    total = 64\nc = C\ngradient_accumulation_steps = C.total // C.batch_size",
            ("C.batch_size", 8, 8),
        ),
        ("cfg = {'batch_size': 8}\naccumulation_steps = 64 // cfg['batch_size']", ("cfg['batch_size']", 8, 8)),
        ("batch_size = 8\nbatch_size = 4\naccumulation_steps = 64 // batch_size", None),
    ],
)
def test_the_division_that_says_it(tmp_path: Path, source: str, what: tuple[str, int, int] | None) -> None:
    assert found(tmp_path, source) == what


def test_ranks_share_the_whole_batch(tmp_path: Path) -> None:
    assert found(tmp_path, NANO + "grad_accum_steps = whole // (B * T * ddp_world_size)", ranks=2) == ("B", 16, 4)


SCRIPT = """
import torch
whole = 64
B, T = 16, 2
grad_accum_steps = whole // (B * T)
max_steps = 6
torch.manual_seed(0)
data = torch.randn(4096, 8)
model = torch.nn.Sequential(torch.nn.Linear(8, 2000), torch.nn.ReLU(), torch.nn.Linear(2000, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
at = 0
def batch():
    global at
    at += B
    return data[at - B : at]
for step in range(max_steps):
    if step % 3 == 0:
        model.eval()
        with torch.no_grad():
            model(data[:8])
        max_length = 32
    model.train()
    optimizer.zero_grad()
    for _ in range(grad_accum_steps):
        loss = model(batch()).pow(2).mean() / grad_accum_steps
        loss.backward()
    optimizer.step()
torch.save([one.double().sum().item() for one in model.parameters()], "sums.pt")
print("micro-batch", B, "in", grad_accum_steps)
"""


def test_no_length_of_a_generation_is_turned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SCRIPT)
    understood = recognise.understand([sys.executable, "train.py"])
    assert understood.ask == {"micro_batch": 16, "accumulation": 2}
    assert understood.args["spelled"] == {"micro_batch": "value:train.py:B", "accumulation": "itself"}
    Path("train.py").write_text(SCRIPT.replace("grad_accum_steps = whole // (B * T)", "grad_accum_steps = 1"))
    by_hand = recognise.understand([sys.executable, "train.py"], value="B")
    assert by_hand.ask == {"micro_batch": 16, "accumulation": 1}


@pytest.mark.slow
def test_a_lower_rung_is_the_same_training(tmp_path: Path) -> None:
    """The script's own micro-batch, set where it is bound; what the script works out of it stays the whole batch."""
    (tmp_path / "train.py").write_text(SCRIPT)

    def ran(*words: str) -> tuple[str, list[float]]:
        (tmp_path / "sums.pt").unlink(missing_ok=True)
        done = subprocess.run([*words, sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
        reads = "import json, torch; print(json.dumps(torch.load('sums.pt')))"
        told = subprocess.run([sys.executable, "-c", reads], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        return done.stdout + done.stderr, json.loads(told)

    _, asked = ran()
    autofit = (sys.executable, "-m", "launcher", "run", "device=cpu", "ask.micro_batch=8", "ask.accumulation=4", "--")
    said, lower = ran(*autofit)
    assert "micro-batch 8 in 4" in said + _logs(tmp_path)
    assert lower == pytest.approx(asked, rel=1e-6, abs=1e-6)


def _logs(folder: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in folder.rglob("*.log"))
