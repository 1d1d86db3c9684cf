"""A loader made by functools.partial with a batch sampler and a collate function of its own; its batches go through a generator."""

import argparse
import functools

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--epochs", type=int, default=2)
args = p.parse_args()
torch.manual_seed(0)


class Points(Dataset):
    def __init__(self):
        self.x, self.y = (torch.randn(48, 32), torch.randint(0, 5, (48,)))

    def __len__(self):
        return 48

    def __getitem__(self, i):
        return {"x": self.x[i], "y": self.y[i]}


def collate(rows):
    return (torch.stack([r["x"] for r in rows]), torch.stack([r["y"] for r in rows]))


make_loader = functools.partial(DataLoader, collate_fn=collate, num_workers=0)
data = Points()
loader = make_loader(data, batch_sampler=BatchSampler(RandomSampler(data), args.batch_size, drop_last=False))


def to_device(batches, device):
    for x, y in batches:
        yield (x.to(device), y.to(device))


model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
for _ in range(args.epochs):
    for x, y in to_device(loader, "cpu"):
        opt.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()
torch.save(model.state_dict(), "model.pt")
