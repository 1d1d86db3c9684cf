"""An endless stream of data, of which a pass takes `--steps-per-epoch` batches."""

import argparse
import itertools

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--epochs", type=int, default=2)
p.add_argument("--steps-per-epoch", type=int, default=6)
args = p.parse_args()
torch.manual_seed(0)


class Stream(IterableDataset):
    def __iter__(self):
        g = torch.Generator().manual_seed(1)
        while True:
            x = torch.randn(32, generator=g)
            yield (x, x[:5].argmax())


loader = DataLoader(Stream(), args.batch_size)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(args.epochs):
    for x, y in itertools.islice(loader, args.steps_per_epoch):
        opt.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()
torch.save(model.state_dict(), "model.pt")
