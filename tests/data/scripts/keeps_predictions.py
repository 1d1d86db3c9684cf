"""Keeps all its predictions in validation: memory grows with every batch."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--width", type=int, default=256)
args = parser.parse_args()
torch.manual_seed(0)
x = torch.randn(640, 32)
data = TensorDataset(x, x[:, :4].argmax(1))
train = DataLoader(data, batch_size=args.batch_size, shuffle=True)
val = DataLoader(TensorDataset(*data[:256]), batch_size=args.batch_size)
model = nn.Sequential(nn.Linear(32, args.width), nn.ReLU(), nn.Linear(args.width, args.width), nn.ReLU(), nn.Linear(args.width, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def step(batch):
    loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
    (loss / args.accum).backward()
    return loss


def validate():
    model.eval()
    with torch.no_grad():
        right = sum(int((model(a).argmax(1) == b).sum()) for a, b in val)
    model.train()
    torch.save(model.state_dict(), "model.pt")
    print("accuracy", right / 256, flush=True)


big = DataLoader(TensorDataset(torch.randn(64 * args.batch_size, 32)), batch_size=args.batch_size)
for epoch in range(3):
    for number, batch in enumerate(train, start=1):
        step(batch)
        if number % args.accum == 0:
            optimizer.step()
            optimizer.zero_grad()
    kept = []
    with torch.no_grad():
        for (batch,) in big:
            kept.append(model[:4](batch).repeat(1, 8))
    print(torch.cat(kept).shape)
