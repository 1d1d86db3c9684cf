"""A while loop over next(); `--max_iters` counts batches, `--iter_size` those of an update."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--iter_size", type=int, default=1, help="batches whose gradients are added up for an update")
p.add_argument("--max_iters", type=int, default=12)
args = p.parse_args()
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(48, 32), torch.randint(0, 5, (48,))), args.batch_size, shuffle=True)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
opt = torch.optim.SGD(model.parameters(), 0.1)
it, batches = (0, iter(loader))
opt.zero_grad()
while it < args.max_iters:
    try:
        x, y = next(batches)
    except StopIteration:
        batches = iter(loader)
        x, y = next(batches)
    (nn.functional.cross_entropy(model(x), y) / args.iter_size).backward()
    it += 1
    if it % args.iter_size == 0:
        opt.step()
        opt.zero_grad()
torch.save(model.state_dict(), "model.pt")
