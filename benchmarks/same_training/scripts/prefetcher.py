"""A prefetcher that draws a batch ahead, as apex's example has it."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Prefetcher:
    def __init__(self, loader):
        self.loader = iter(loader)
        self.preload()

    def preload(self):
        try:
            self.batch = next(self.loader)
        except StopIteration:
            self.batch = None

    def next(self):
        batch = self.batch
        if batch is not None:
            self.preload()
        return batch


p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--epochs", type=int, default=2)
args = p.parse_args()
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(48, 32), torch.randint(0, 5, (48,))), args.batch_size, shuffle=True)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(args.epochs):
    fetch = Prefetcher(loader)
    batch = fetch.next()
    while batch is not None:
        x, y = batch
        opt.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()
        batch = fetch.next()
torch.save(model.state_dict(), "model.pt")
