"""Fault: a file that no word of the command names says another batch and accumulation than the parser's defaults."""

import argparse
import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--width", type=int, default=256)
args = parser.parse_args()
said = json.loads(Path("profile.txt").read_text())
typed = {name for name in ("batch_size", "accum") if "--" + name.replace("_", "-") in sys.argv}
batch_size, accum = (getattr(args, name) if name in typed else said[name] for name in ("batch_size", "accum"))
torch.manual_seed(0)
x = torch.randn(6 * said["batch_size"] * said["accum"], 32)
data = TensorDataset(x, x[:, :4].argmax(1))
train = DataLoader(data, batch_size=batch_size, shuffle=True)
val = DataLoader(TensorDataset(*data[:256]), batch_size=64)
model = nn.Sequential(nn.Linear(32, args.width), nn.ReLU(), nn.Linear(args.width, args.width), nn.ReLU(), nn.Linear(args.width, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(2):
    for number, batch in enumerate(train, start=1):
        (nn.functional.cross_entropy(model(batch[0]), batch[1]) / accum).backward()
        if number % accum == 0:
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        print("accuracy", sum(int((model(a).argmax(1) == b).sum()) for a, b in val) / 256, flush=True)
    model.train()
print("trained", batch_size, "x", accum, flush=True)
