"""Batches of as many tokens as fit into a budget, as fairseq makes them."""

import argparse
import random

import torch
from torch import nn
from torch.utils.data import DataLoader

p = argparse.ArgumentParser()
p.add_argument("--max-tokens", type=int, default=160)
p.add_argument("--update-freq", type=int, default=1)
p.add_argument("--max-epoch", type=int, default=2)
args = p.parse_args()
torch.manual_seed(0)
random.seed(0)
rows = [torch.randint(1, 60, (random.randint(8, 20),)) for _ in range(64)]
order = sorted(range(64), key=lambda i: len(rows[i]))


def budgeted():
    batches, now = ([], [])
    for i in order:
        if now and len(rows[i]) * (len(now) + 1) > args.max_tokens:
            batches.append(now)
            now = []
        now.append(i)
    return [*batches, now]


batches = budgeted()
random.shuffle(batches)


def collate(some):
    return nn.utils.rnn.pad_sequence(some, batch_first=True)


loader = DataLoader(rows, batch_sampler=batches, collate_fn=collate)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.r, self.o = (nn.Embedding(60, 16), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 60))

    def forward(self, t):
        return self.o(self.r(self.e(t))[0])


model = Model()
opt = torch.optim.SGD(model.parameters(), 0.5)
for _ in range(args.max_epoch):
    for i, t in enumerate(loader):
        out = model(t)
        loss = nn.functional.cross_entropy(out[:, :-1].flatten(0, 1), t[:, 1:].flatten(), ignore_index=0, reduction="sum")
        (loss / args.max_tokens / args.update_freq).backward()
        if (i + 1) % args.update_freq == 0 or i + 1 == len(loader):
            opt.step()
            opt.zero_grad()
torch.save(model.state_dict(), "model.pt")
