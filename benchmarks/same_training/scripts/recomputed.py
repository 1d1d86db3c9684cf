"""Layers that are recomputed in the backward pass, inside one another."""

import argparse

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--epochs", type=int, default=2)
args = p.parse_args()
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(48, 32), torch.randint(0, 5, (48,))), args.batch_size, shuffle=True)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Dropout(0.0))

    def forward(self, x):
        return x + checkpoint(self.inner, x, use_reentrant=True)


model = nn.Sequential(nn.Linear(32, 32), Block(), Block(), nn.Linear(32, 5))
opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
for _ in range(args.epochs):
    for x, y in loader:
        opt.zero_grad()
        logits = checkpoint(model, x.requires_grad_(), use_reentrant=True)
        nn.functional.cross_entropy(logits, y).backward()
        opt.step()
torch.save(model.state_dict(), "model.pt")
