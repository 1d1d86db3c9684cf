"""The learning rate falls after so many batches, of which none is among the first."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--accum", type=int, default=1)
p.add_argument("--epochs", type=int, default=2)
args = p.parse_args()
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(48, 32), torch.randint(0, 5, (48,))), args.batch_size, shuffle=True)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
schedule = torch.optim.lr_scheduler.MultiStepLR(opt, milestones=[40], gamma=0.1)
for _ in range(args.epochs):
    for i, (x, y) in enumerate(loader):
        (nn.functional.cross_entropy(model(x), y) / args.accum).backward()
        if (i + 1) % args.accum == 0:
            opt.step()
            opt.zero_grad()
        schedule.step()
torch.save(model.state_dict(), "model.pt")
