"""A batch sampler of its own puts items of like length together: one batch in fifty is the long one."""

import argparse
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--accum", type=int, default=1)
args = parser.parse_args()
torch.manual_seed(0)


class Items(Dataset):
    def __len__(self):
        return 50 * args.batch_size

    def __getitem__(self, index):
        return torch.randn(2000 if index >= 49 * args.batch_size else 20, 1)


class Buckets:
    def __len__(self):
        return 50

    def __iter__(self):
        for bucket in random.sample(range(50), 50):
            yield list(range(bucket * args.batch_size, (bucket + 1) * args.batch_size))


def pad(items):
    return nn.utils.rnn.pad_sequence(items, batch_first=True)


model = nn.Sequential(nn.Linear(1, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(2):
    for batch in DataLoader(Items(), batch_sampler=Buckets(), collate_fn=pad):
        model(batch).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
