"""Takes the whole batch of a step from its loader, and that in parts."""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--microbatch", type=int, default=-1)
parser.add_argument("--wrong", action="store_true", help="takes parts of another size than it was told")
parser.add_argument("--features", type=int, default=12)
args = parser.parse_args()
data = TensorDataset(torch.randn(640, args.features), torch.randint(0, 4, (640,)))
model = nn.Sequential(nn.Linear(args.features, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
part = args.batch_size if args.microbatch < 1 else args.microbatch // (2 if args.wrong else 1)
for epoch in range(4):
    model.train()
    for x, y in DataLoader(data, batch_size=args.batch_size, shuffle=True):
        for at in range(0, len(x), part):
            loss = nn.functional.cross_entropy(model(x[at : at + part]), y[at : at + part])
            (loss * len(y[at : at + part]) / len(y)).backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        for x, y in DataLoader(data, batch_size=64):
            model(x)
