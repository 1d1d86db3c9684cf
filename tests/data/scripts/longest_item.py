"""Items differ in length, and the batch is padded to the longest: one long item makes a batch large, also of a sampler's own batches."""

import argparse
import random

import torch
from torch import nn
from torch.utils.data import DataLoader
from usual import Usual

parser = argparse.ArgumentParser()
parser.add_argument("--buckets", action="store_true")
usual = Usual(parser)
size = usual.args.batch_size


class Ragged(torch.utils.data.Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        return torch.randn(2000 if index == 333 else 20, 32)


class Buckets:
    """A batch sampler that puts neighbours together."""

    def __len__(self):
        return 400 // size

    def __iter__(self):
        for bucket in random.sample(range(len(self)), len(self)):
            yield list(range(bucket * size, (bucket + 1) * size))


def padded(items):
    return nn.utils.rnn.pad_sequence(items, batch_first=True)


how = {"batch_sampler": Buckets()} if usual.args.buckets else {"batch_size": size, "shuffle": True}
ragged = DataLoader(Ragged(), collate_fn=padded, **how)
for _ in range(3):
    usual.model.train()
    for batch in ragged:
        usual.model(batch).pow(2).mean().backward()
        usual.optimizer.step()
        usual.optimizer.zero_grad()
    usual.validate()
