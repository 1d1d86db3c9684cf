"""Batches come of a batch sampler, with rows of like length beside one another."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--epochs", type=int, default=2)
args = p.parse_args()
torch.manual_seed(0)
rows, labels, lengths = torch.randn(48, 32), torch.randint(0, 5, (48,)), torch.randint(1, 9, (48,))


class ByLength(Sampler):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return len(lengths) // self.size

    def __iter__(self):
        order = torch.argsort(lengths * 100 + torch.randperm(len(lengths))).tolist()
        batches = [order[at : at + self.size] for at in range(0, len(order), self.size)]
        return (batches[at] for at in torch.randperm(len(batches)).tolist())


loader = DataLoader(TensorDataset(rows, labels), batch_sampler=ByLength(args.batch_size))
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
for _ in range(args.epochs):
    for x, y in loader:
        opt.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()
torch.save(model.state_dict(), "model.pt")
