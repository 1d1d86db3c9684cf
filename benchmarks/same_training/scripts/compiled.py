"""The loss is compiled by torch.compile."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--grad-accum", type=int, default=1)
p.add_argument("--epochs", type=int, default=2)
args = p.parse_args()
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(48, 32), torch.randint(0, 5, (48,))), args.batch_size, shuffle=True, drop_last=True)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
opt = torch.optim.SGD(model.parameters(), 0.1)


@torch.compile(backend="aot_eager")
def loss_of(x, y):
    return nn.functional.cross_entropy(model(x), y) / args.grad_accum


n = 0
for _ in range(args.epochs):
    for x, y in loader:
        loss_of(x, y).backward()
        n += 1
        if n % args.grad_accum == 0:
            opt.step()
            opt.zero_grad()
torch.save(model.state_dict(), "model.pt")
