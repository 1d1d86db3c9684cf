"""Fault: halves its batch by itself when memory runs out, as accelerate's find_executable_batch_size does."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--width", type=int, default=256)
args = parser.parse_args()
torch.manual_seed(0)
x = torch.randn(8192, 32)
data = TensorDataset(x, x[:, :4].argmax(1))


def train(batch_size):
    model = nn.Sequential(nn.Linear(32, args.width), nn.ReLU(), nn.Linear(args.width, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for epoch in range(4):
        for at, (a, b) in enumerate(DataLoader(data, batch_size=batch_size, shuffle=True)):
            (nn.functional.cross_entropy(model(a), b) / args.accum).backward()
            if (at + 1) % args.accum == 0:
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            for a, _ in DataLoader(data, batch_size=64):
                model(a)
        model.train()


batch_size = args.batch_size
while True:
    try:
        train(batch_size)
        break
    except RuntimeError as error:
        if "memory" not in str(error) or batch_size == 1:
            raise
        batch_size //= 2
