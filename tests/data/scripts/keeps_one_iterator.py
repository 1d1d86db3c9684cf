"""As YOLOv5 loads its data: one iterator for all epochs, over a sampler that never ends; batches are asked for one by one."""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Repeated:
    """A sampler, over and over."""

    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        while True:
            yield from iter(self.sampler)


class RepeatedLength(Repeated):
    """One that tells how long a pass is all the same, as YOLOX's."""

    def __len__(self):
        return len(self.sampler)


class OneIterator(DataLoader):
    """Its workers live as long as it does."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", Repeated(self.batch_sampler))
        self.iterator = super().__iter__()

    def __len__(self):
        return len(self.batch_sampler.sampler)

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)


class Prefetched:
    """Knows an end when it sees one; whoever asks it doesn't."""

    def __init__(self, loader):
        self.batches = iter(loader)

    def next(self):
        try:
            return next(self.batches)
        except StopIteration:
            return None


parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--samples", type=int, default=2048)
parser.add_argument("--prefetch", action="store_true")
args = parser.parse_args()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
x = torch.randn(args.samples, 32)
data = TensorDataset(x, x[:, :4].argmax(1))
val = DataLoader(TensorDataset(*data[:64]), batch_size=16)
if args.prefetch:
    sampler = RepeatedLength(torch.utils.data.RandomSampler(data))
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    prefetched = Prefetched(loader)
else:
    loader = OneIterator(data, batch_size=args.batch_size, shuffle=True)


def batches():
    if not args.prefetch:
        yield from loader
        return
    for _ in range(len(loader)):
        yield prefetched.next()


for _ in range(args.epochs):
    model.train()
    for number, (inputs, targets) in enumerate(batches(), start=1):
        (nn.functional.cross_entropy(model(inputs), targets) / args.accum).backward()
        if number % args.accum == 0:
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        print("right", sum(int((model(a).argmax(1) == b).sum()) for a, b in val), flush=True)
