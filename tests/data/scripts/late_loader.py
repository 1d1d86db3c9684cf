"""A second stage on a loader whose batch no flag says. ``--stages`` says of which sizes the later ones are; weights and steps are saved."""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--stages", type=int, nargs="*", default=[24])
parser.add_argument("--out", default="out.pt")
args = parser.parse_args()

torch.manual_seed(0)
rows = torch.randn(96, 8)
net = nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
steps = 0
optimizer.register_step_post_hook(lambda *_: globals().update(steps=steps + 1))
for size in (args.batch_size, *args.stages):
    for (x,) in DataLoader(TensorDataset(rows), size, shuffle=False):
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), x[:, :1]).backward()
        optimizer.step()
torch.save({"steps": torch.tensor(steps), **net.state_dict()}, args.out)
