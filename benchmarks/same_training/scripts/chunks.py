"""Splits each batch by itself, into `--batch-split` parts."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--batch-split", type=int, default=1)
p.add_argument("--epochs", type=int, default=2)
args = p.parse_args()
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(48, 32), torch.randint(0, 5, (48,))), args.batch_size, shuffle=True)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(args.epochs):
    for x, y in loader:
        opt.zero_grad()
        for a, b in zip(x.chunk(args.batch_split), y.chunk(args.batch_split)):
            (nn.functional.cross_entropy(model(a), b) * len(a) / len(x)).backward()
        opt.step()
torch.save(model.state_dict(), "model.pt")
