"""Weights decay by hand after every batch."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--epochs", type=int, default=2)
p.add_argument("--decay", type=float, default=0.0005)
args = p.parse_args()
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(48, 32), torch.randint(0, 5, (48,))), args.batch_size, shuffle=True)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(args.epochs):
    for x, y in loader:
        opt.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()
        with torch.no_grad():
            for q in model.parameters():
                q.mul_(1 - args.decay)
torch.save(model.state_dict(), "model.pt")
