"""A loop whose optimizer is chosen by a word, with a warm-up that begins at a learning rate of 0."""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=4)
parser.add_argument("--optim", default="adamw")
args = parser.parse_args()

torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 16), torch.randint(0, 3, (64,)))
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3))
kinds = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD, "same": torch.optim.AdamW}
optimizer = kinds[args.optim](net.parameters(), lr=0.01)
warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(step / 4, 1.0))
for _ in range(2):
    for inputs, labels in DataLoader(data, batch_size=args.batch_size, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(inputs), labels).backward()
        optimizer.step()
        warm_up.step()
