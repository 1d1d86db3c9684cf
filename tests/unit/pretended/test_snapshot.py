"""A trial that fails on a card leaves PyTorch's memory snapshot, where a recipe says so; on a pretended card."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

from launcher.inside.snapshot import NAME
from launcher.pretended import cards, catalogue
from tests.helpers.pretended import needs_a_pretended_card

SCRIPT = """
import argparse
import torch
from torch.utils.data import DataLoader, TensorDataset
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=1)
batch = parser.parse_args().batch_size
model = torch.nn.Linear(16, 64 << 20).cuda()  # 4 GiB: more than the budget
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for (rows,) in DataLoader(TensorDataset(torch.randn(64, 16)), batch_size=batch, shuffle=True):
    model(rows.cuda()).mean().backward()
    optimizer.step()
"""


@needs_a_pretended_card
def test_the_failing_trials_snapshot_is_in_its_folder_and_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    settings = ["device=cuda", "device.memory=2GiB", "trial.snapshot=true"]
    argv = [sys.executable, "-m", "launcher", "run", "--fit-only", *settings, "--", sys.executable, "train.py"]
    (model,) = catalogue.named(["a100_40gb"])
    with cards.played(cards.Cards(model=model, computed="small")) as environment:
        done = subprocess.run(argv, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 3, done.stderr[-3000:]
    (kept,) = tmp_path.glob(f"runs/autofit/*/trials/000/{NAME}")
    recorded = pickle.loads(kept.read_bytes())
    refused = [event for event in recorded["device_traces"][0] if event["action"] == "oom"]
    assert refused and any(frame["filename"].endswith("train.py") for frame in refused[-1]["frames"])
