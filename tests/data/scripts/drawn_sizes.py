"""Batches of a size that is drawn: a stream with rare long rows (paragraphs of Python's own help), pictures (scikit-learn's digits) at a
scale that a collate function draws, as RF-DETR's and D-FINE's do, or as many of them as Poisson sampling takes, as opacus' does."""

import argparse
import random
from pydoc_data.topics import topics

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--how", choices=("stream", "scale", "poisson"), required=True)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--accum", type=int, default=1)
args = parser.parse_args()
torch.manual_seed(0)
random.seed(0)


class Help(IterableDataset):
    def __iter__(self):
        for name in sorted(topics):
            yield from (torch.tensor(list(text.encode())) for text in topics[name].split("\n\n") if text.strip())


class Poisson:
    def __len__(self):
        return len(digits) // args.batch_size

    def __iter__(self):
        for _ in range(len(self)):
            yield (torch.rand(len(digits)) < args.batch_size / len(digits)).nonzero().flatten().tolist()


def scaled(items):
    side = 96 if random.random() < 0.01 else 16
    return nn.functional.interpolate(torch.stack([picture for (picture,) in items]), size=(side, side))


digits = TensorDataset(torch.tensor(load_digits().images, dtype=torch.float32).unsqueeze(1))
convolutions = nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()
model = nn.Sequential(*convolutions, nn.AdaptiveAvgPool2d(1))
loader = DataLoader(digits, args.batch_size, shuffle=True, collate_fn=scaled)
if args.how == "poisson":
    loader = DataLoader(digits, batch_sampler=Poisson(), collate_fn=lambda items: torch.stack([picture for (picture,) in items]))
if args.how == "stream":
    model = nn.Sequential(nn.Embedding(256, 16), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16))
    pad = nn.utils.rnn.pad_sequence
    loader = DataLoader(Help(), args.batch_size, collate_fn=lambda rows: pad(rows, batch_first=True))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(2):
    model.train()
    for number, batch in enumerate(loader, start=1):
        (model(batch).square().mean() / args.accum).backward()
        if number % args.accum == 0:
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        print("epoch", epoch, model(batch[:4]).mean().item(), flush=True)
