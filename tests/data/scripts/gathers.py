"""Gathers what its model says of every batch, in training or in validation, and joins it at the end of the pass."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--where", choices=["train", "val"], default="val")
parser.add_argument("--how", choices=["list", "dict"], default="list")
parser.add_argument("--width", type=int, default=4096)
parser.add_argument("--sleep", type=float, default=0.4)
args = parser.parse_args()
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
x = torch.randn(64 * 39 + 10, 32)
data = TensorDataset(x, x[:, :4].argmax(1))
train = DataLoader(data, batch_size=args.batch_size, shuffle=True)
val = DataLoader(data, batch_size=64)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, args.width)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


class Gathering:
    def __init__(self, where):
        self.on, self.scores, self.labels, self.by_number = args.where == where, [], [], {}

    def batch(self, scores, labels):
        if self.on and args.how == "list":
            self.scores.append(scores.detach().cpu())
            self.labels.extend(labels.tolist())
        elif self.on:
            self.by_number[len(self.by_number)] = scores.detach().cpu()
        if self.on:
            time.sleep(args.sleep)

    def joined(self):
        if self.on:
            scores = torch.cat(self.scores or list(self.by_number.values()))
            print("joined", len(scores), len(self.labels), flush=True)


for epoch in range(2):
    gathering = Gathering("train")
    model.train()
    for number, (batch, labels) in enumerate(train, start=1):
        scores = model(batch.to(device))
        nn.functional.cross_entropy(scores, labels.to(device)).div(args.accum).backward()
        if number % args.accum == 0:
            optimizer.step()
            optimizer.zero_grad()
        gathering.batch(scores, labels)
    gathering.joined()
    gathering = Gathering("val")
    model.eval()
    with torch.no_grad():
        for batch, labels in val:
            gathering.batch(model(batch.to(device)), labels)
    gathering.joined()
with open("/proc/self/status") as status:
    told = dict(line.split()[:2] for line in status if line.startswith(("VmHWM:", "RssFile:")))
print("took", int(told["VmHWM:"]) - int(told["RssFile:"]), flush=True)
