"""Gradients of every row by torch.func, each clipped, as private training has it; no backward pass."""

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
opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)


def loss_of(weights, x, y):
    return nn.functional.cross_entropy(torch.func.functional_call(model, weights, (x[None],)), y[None])


each = torch.func.vmap(torch.func.grad(loss_of), in_dims=(None, 0, 0))
for _ in range(args.epochs):
    for x, y in loader:
        print(f"loss {nn.functional.cross_entropy(model(x), y).item():.3f}")
        found = each({name: one.detach() for name, one in model.named_parameters()}, x, y)
        norms = torch.stack([one.flatten(1).norm(dim=1) for one in found.values()]).norm(dim=0)
        for name, one in model.named_parameters():
            rows = found[name] / norms.clamp(min=1.0).view(-1, *[1] * one.dim())
            one.grad = rows.mean(dim=0)
        opt.step()
torch.save(model.state_dict(), "model.pt")
