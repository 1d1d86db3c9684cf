"""The learning rate is set by hand from the part of the epoch that is done, as MAE has it."""

import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--batch_size", type=int, default=8)
p.add_argument("--accum_iter", type=int, default=1)
p.add_argument("--epochs", type=int, default=4)
p.add_argument("--warmup_epochs", type=int, default=1)
p.add_argument("--blr", type=float, default=3.2)
args = p.parse_args()
torch.manual_seed(0)
lr = args.blr * args.batch_size * args.accum_iter / 256
loader = DataLoader(TensorDataset(torch.randn(48, 32), torch.randint(0, 5, (48,))), args.batch_size, shuffle=True, drop_last=True)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
opt = torch.optim.SGD(model.parameters(), lr)


def adjust(epoch):
    if epoch < args.warmup_epochs:
        now = lr * epoch / args.warmup_epochs
    else:
        now = lr * 0.5 * (1 + math.cos(math.pi * (epoch - args.warmup_epochs) / (args.epochs - args.warmup_epochs)))
    for g in opt.param_groups:
        g["lr"] = now


for epoch in range(args.epochs):
    opt.zero_grad()
    for i, (x, y) in enumerate(loader):
        if i % args.accum_iter == 0:
            adjust(i / len(loader) + epoch)
        loss = nn.functional.cross_entropy(model(x), y) / args.accum_iter
        loss.backward()
        if (i + 1) % args.accum_iter == 0:
            opt.step()
            opt.zero_grad()
torch.save(model.state_dict(), "model.pt")
