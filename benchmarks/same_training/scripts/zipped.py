"""Semi-supervised: a labelled and an unlabelled loader, zipped; both are in one forward pass."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--epochs", type=int, default=2)
args = p.parse_args()
torch.manual_seed(0)
labelled = DataLoader(TensorDataset(torch.randn(48, 32), torch.randint(0, 5, (48,))), args.batch_size, shuffle=True)
unlabelled = DataLoader(TensorDataset(torch.randn(64, 32)), args.batch_size, shuffle=True)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(args.epochs):
    for (x, y), (u,) in zip(labelled, unlabelled):
        out = model(torch.cat([x, u]))
        loss = nn.functional.cross_entropy(out[: len(x)], y) + 0.1 * out[len(x) :].pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
torch.save(model.state_dict(), "model.pt")
