"""Adds gradients up and divides them by hand before the step, or forgets to."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--bs", type=int, default=8)
p.add_argument("--accumulation-steps", type=int, default=1)
p.add_argument("--epochs", type=int, default=2)
p.add_argument("--forget", action="store_true")
args = p.parse_args()
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(48, 32), torch.randint(0, 5, (48,))), args.bs, shuffle=True)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
opt = torch.optim.Adam(model.parameters(), 0.01)
done = 0
for _ in range(args.epochs):
    for x, y in loader:
        nn.functional.cross_entropy(model(x), y).backward()
        done += 1
        if done == args.accumulation_steps:
            if not args.forget:
                for q in model.parameters():
                    q.grad.div_(args.accumulation_steps)
            opt.step()
            opt.zero_grad()
            done = 0
torch.save(model.state_dict(), "model.pt")
