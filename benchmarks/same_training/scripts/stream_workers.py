"""A stream that its workers share: each gives every second row, and batches come of them in turn."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--accum", type=int, default=1)
p.add_argument("--epochs", type=int, default=2)
args = p.parse_args()
torch.manual_seed(0)
rows, labels = torch.randn(48, 32), torch.randint(0, 5, (48,))


class Stream(IterableDataset):
    def __iter__(self):
        mine = get_worker_info()
        at, of = (mine.id, mine.num_workers) if mine is not None else (0, 1)
        return ((rows[row], labels[row]) for row in range(at, len(rows), of))


loader = DataLoader(Stream(), args.batch_size, num_workers=2)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
for _ in range(args.epochs):
    for i, (x, y) in enumerate(loader):
        (nn.functional.cross_entropy(model(x), y) / args.accum).backward()
        if (i + 1) % args.accum == 0:
            opt.step()
            opt.zero_grad()
torch.save(model.state_dict(), "model.pt")
