"""Batches of sizes that differ (``--how``): padded to the longest item, of a sampler's own batches too; rows of a stream; at a scale that a
collate function draws, as RF-DETR's and D-FINE's do; or of as many items as Poisson sampling takes, as opacus' does."""

import argparse
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset
from usual import Usual

parser = argparse.ArgumentParser()
parser.add_argument("--how", choices=("longest", "buckets", "stream", "scale", "poisson"), required=True)
usual = Usual(parser)
how, size = usual.args.how, usual.args.batch_size
random.seed(0)


class Ragged(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        return torch.randn(2000 if index == 333 and how not in ("scale", "poisson") else 20, 32)


class Stream(IterableDataset):
    def __iter__(self):
        return (Ragged()[index] for index in range(400))


class Batches:
    """A batch sampler that puts neighbours together, or takes each item by chance."""

    def __len__(self):
        return 400 // size

    def __iter__(self):
        for number in random.sample(range(len(self)), len(self)):
            drawn = torch.rand(400) < size / 400
            yield list(range(number * size, number * size + size)) if how == "buckets" else drawn.nonzero().flatten().tolist()


def collated(items):
    rows = nn.utils.rnn.pad_sequence(items, batch_first=True)
    return rows.repeat(1, 100, 1) if how == "scale" and random.random() < 0.01 else rows


more = {"batch_sampler": Batches()} if how in ("buckets", "poisson") else {"batch_size": size, "shuffle": how in ("longest", "scale")}
loader = DataLoader(Stream() if how == "stream" else Ragged(), collate_fn=collated, **more)
for _ in range(3):
    for number, rows in enumerate(loader, start=1):
        (usual.model(rows).pow(2).mean() / usual.args.accum).backward()
        if number % usual.args.accum == 0:
            usual.optimizer.step()
            usual.optimizer.zero_grad()
    usual.validate()
