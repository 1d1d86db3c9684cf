"""Has modules of its own whose names others have too (the test lays them beside this script), and trains."""

import argparse
import importlib
import sys
from pathlib import Path

OWN = sorted(path.stem for path in Path(sys.argv[0]).parent.glob("*.py") if path.stem != Path(sys.argv[0]).stem)


def are_mine():
    foreign = [name for name in OWN if not hasattr(importlib.import_module(name), "MINE")]
    assert not foreign, f"imported somebody else's {foreign}"


are_mine()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--accum", type=int, default=1)
args = parser.parse_args()
x = torch.randn(640, 32)
data = TensorDataset(x, x[:, :4].argmax(1))
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    model.train()
    for a, b in DataLoader(data, args.batch_size, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(a), b).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        print(sum(int((model(a).argmax(1) == b).sum()) for a, b in DataLoader(data, 64)))
for name in OWN:
    sys.modules.pop(name)
are_mine()
print("all are mine")
