"""Each parameter is stepped in its backward hook."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--epochs", type=int, default=2)
args = p.parse_args()
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(48, 32), torch.randint(0, 5, (48,))), args.batch_size, shuffle=True)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
opts = {q: torch.optim.SGD([q], 0.1) for q in model.parameters()}


def hook(q):
    opts[q].step()
    opts[q].zero_grad()


for q in model.parameters():
    q.register_post_accumulate_grad_hook(hook)
for _ in range(args.epochs):
    for x, y in loader:
        nn.functional.cross_entropy(model(x), y).backward()
torch.save(model.state_dict(), "model.pt")
