"""Saves in the middle of an epoch, and reads it back at the end of it."""

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
    optimizer.step()
    optimizer.zero_grad()


def validate():
    model.eval()
    with torch.no_grad():
        print("accuracy", sum(int((model(a).argmax(1) == b).sum()) for a, b in val) / 256, flush=True)
    model.train()


for epoch in range(2):
    for number, batch in enumerate(train):
        step(batch)
        if number == 8:
            torch.save(model.state_dict(), f"epoch{epoch}.pt")
    model.load_state_dict(torch.load(f"epoch{epoch}.pt"))
    validate()
