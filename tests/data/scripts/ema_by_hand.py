"""An average of the weights that is kept by hand, moves with every batch, and is what is saved. No word for accumulation."""

from __future__ import annotations

import argparse
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()

torch.manual_seed(0)
rows = torch.randn(256, 16)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
average = copy.deepcopy(net).requires_grad_(False)
optimizer = torch.optim.SGD(net.parameters(), lr=0.001)
for _ in range(args.epochs):
    for x, y in DataLoader(TensorDataset(rows, rows[:, :1] - 2 * rows[:, 1:2]), args.batch_size, shuffle=True):
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for kept, weight in zip(average.parameters(), net.parameters(), strict=True):
                kept.lerp_(weight, 0.02)
torch.save(average.state_dict(), "average.pt")
