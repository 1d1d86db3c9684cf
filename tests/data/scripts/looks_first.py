"""It looks at a batch before it makes its model, as notebooks do."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--accum", type=int, default=1)
args = parser.parse_args()
torch.manual_seed(0)
x = torch.randn(256, 64)
train = DataLoader(TensorDataset(x, (x[:, :8].sum(1) > 0).long()), batch_size=args.batch_size, shuffle=True)
inputs, labels = next(iter(train))
hidden = [layer for _ in range(2) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), *hidden, nn.Linear(1024, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(2):
    for number, (inputs, labels) in enumerate(train, start=1):
        (nn.functional.cross_entropy(model(inputs), labels) / args.accum).backward()
        if number % args.accum == 0:
            optimizer.step()
            optimizer.zero_grad()
