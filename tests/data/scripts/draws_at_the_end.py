"""A training whose losses, one a step, are drawn in a large figure at the end."""

import argparse

import matplotlib
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

matplotlib.use("Agg")
import matplotlib.pyplot as plt

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--accum", type=int, default=1)
args = parser.parse_args()

data = TensorDataset(torch.randn(4000, 64), torch.randint(10, (4000,)))
train, test = DataLoader(data, args.batch_size, shuffle=True), DataLoader(data, args.batch_size)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _epoch in range(100):
    model.train()
    for step, (x, y) in enumerate(train, 1):
        loss = nn.functional.cross_entropy(model(x), y)
        (loss / args.accum).backward()
        if step % args.accum == 0:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        for x, y in test:
            nn.functional.cross_entropy(model(x), y)
figure, axes = plt.subplots(figsize=(12, 8))
axes.plot(losses)
axes.axhline(losses[-1])
figure.savefig("losses.png", dpi=300)
print(len(axes.lines[0].get_xdata()), "points")
