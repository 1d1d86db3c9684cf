"""Validates in its first step alone, one batch of an endless loader: ``if step % 100 == 0`` in a training of fewer."""

import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--accum", type=int, default=1)
arguments = parser.parse_args()


def cycle(loader):
    while True:
        yield from loader


data = TensorDataset(torch.randn(256, 64), torch.randint(0, 10, (256,)))
training = cycle(DataLoader(data, batch_size=arguments.batch_size, shuffle=True))
validation = cycle(DataLoader(data, batch_size=arguments.batch_size))
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimizer = torch.optim.Adam(model.parameters())
for step in range(6):
    model.train()
    for _ in range(arguments.accum):
        x, y = next(training)
        (torch.nn.functional.cross_entropy(model(x), y) / arguments.accum).backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 100 == 0:
        model.eval()
        with torch.no_grad():
            x, y = next(validation)
            print("validation", torch.nn.functional.cross_entropy(model(x), y).item())
