"""Reads back the checkpoint it has just written, and appends to a log that is there."""

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


import os
import shutil
from pathlib import Path

out = Path("out")
for epoch in range(3):
    for number, batch in enumerate(train, start=1):
        step(batch)
        if number % args.accum == 0:
            optimizer.step()
            optimizer.zero_grad()
    validate()
    out.mkdir(exist_ok=True)
    shutil.copy("model.pt", out / "best.pt")
    os.replace(out / "best.pt", out / "last.pt")
    assert [path.name for path in out.iterdir()] == ["last.pt"] and not Path("out/best.pt").exists()
    model.load_state_dict(torch.load("out/last.pt"))
    with open("log.txt", "a") as log:
        log.write(f"epoch {epoch}\n")
    assert Path("log.txt").read_text().endswith(f"epoch {epoch}\n")
    os.remove("precious.txt")
    assert not os.path.exists("precious.txt")
    Path("precious.txt").write_text("overwritten")
