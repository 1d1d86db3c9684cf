"""Accumulates by `(i + 1) % k`, and steps at the end of each pass, too; 44 rows, so that the last step is a smaller one."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--accum-iter", type=int, default=1)
p.add_argument("--epochs", type=int, default=2)
args = p.parse_args()
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(44, 32), torch.randint(0, 5, (44,))), args.batch_size, shuffle=True)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
opt = torch.optim.AdamW(model.parameters(), 0.01)
for _ in range(args.epochs):
    for i, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x), y) / args.accum_iter
        loss.backward()
        if (i + 1) % args.accum_iter == 0 or i + 1 == len(loader):
            opt.step()
            opt.zero_grad()
torch.save(model.state_dict(), "model.pt")
