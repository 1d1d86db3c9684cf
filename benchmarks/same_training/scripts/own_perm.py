"""Batches by a permutation of its own, without a loader; accumulates by itself."""

import argparse

import torch
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--accum", type=int, default=1)
p.add_argument("--epochs", type=int, default=2)
args = p.parse_args()
torch.manual_seed(0)
X, Y = (torch.randn(48, 32), torch.randint(0, 5, (48,)))
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(args.epochs):
    perm = torch.randperm(len(X))
    for i in range(0, len(X), args.batch_size):
        idx = perm[i : i + args.batch_size]
        (nn.functional.cross_entropy(model(X[idx]), Y[idx]) / args.accum).backward()
        if (i // args.batch_size + 1) % args.accum == 0:
            opt.step()
            opt.zero_grad()
torch.save(model.state_dict(), "model.pt")
