"""Evaluates after so many batches, and a scheduler looks at what came of it."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--epochs", type=int, default=4)
p.add_argument("--eval-every", type=int, default=4, help="batches")
args = p.parse_args()
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(48, 32), torch.randint(0, 5, (48,))), args.batch_size, shuffle=True)
val = DataLoader(TensorDataset(torch.randn(16, 32), torch.randint(0, 5, (16,))), 16)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
opt = torch.optim.SGD(model.parameters(), 0.3)
sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=0)
n = 0
for _ in range(args.epochs):
    for x, y in loader:
        model.train()
        opt.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()
        n += 1
        if n % args.eval_every == 0:
            model.eval()
            with torch.no_grad():
                sched.step(sum((nn.functional.cross_entropy(model(a), b).item() for a, b in val)))
torch.save(model.state_dict(), "model.pt")
