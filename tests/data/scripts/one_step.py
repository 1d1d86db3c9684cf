"""So little data that the whole training is one optimizer step; validates after it."""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--accum", type=int, default=1)
args = parser.parse_args()
data = TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters())
for at, (x, y) in enumerate(DataLoader(data, batch_size=args.batch_size, shuffle=True)):
    (nn.functional.cross_entropy(model(x), y) / args.accum).backward()
    if (at + 1) % args.accum == 0:
        optimizer.step()
        optimizer.zero_grad()
model.eval()
with torch.no_grad():
    for x, _ in DataLoader(data, batch_size=64):
        model(x)
