"""A sum over targets, divided by their number in the whole optimizer step, which is drawn before it."""

import argparse
import itertools

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--accum", type=int, default=1)
p.add_argument("--epochs", type=int, default=2)
args = p.parse_args()
torch.manual_seed(0)
lengths = torch.randint(2, 9, (48,))
words = torch.randint(0, 11, (48, 9)).masked_fill(torch.arange(9) > lengths[:, None], -100)
loader = DataLoader(TensorDataset(words), args.batch_size, shuffle=True)
model = nn.Sequential(nn.Embedding(11, 32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 11))
opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)


def summed(batch):
    logits = model(batch[:, :-1].clamp(min=0))
    return nn.functional.cross_entropy(logits.transpose(1, 2), batch[:, 1:], reduction="sum")


for _ in range(args.epochs):
    ahead = iter(loader)
    while parts := list(itertools.islice(ahead, args.accum)):
        targets = sum((batch[:, 1:] != -100).sum() for (batch,) in parts)
        for (batch,) in parts:
            (summed(batch) / targets).backward()
        opt.step()
        opt.zero_grad()
torch.save(model.state_dict(), "model.pt")
