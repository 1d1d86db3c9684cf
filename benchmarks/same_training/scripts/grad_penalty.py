"""A penalty on the gradient of the input, made with torch.autograd.grad(create_graph=True)."""

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
model = nn.Sequential(nn.Linear(32, 64), nn.Softplus(), nn.Linear(64, 5))
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(args.epochs):
    for x, y in loader:
        x.requires_grad_(True)
        out = model(x)
        (g,) = torch.autograd.grad(out.logsumexp(1).sum(), x, create_graph=True)
        loss = nn.functional.cross_entropy(out, y) + 0.5 * ((g.norm(dim=1) - 1) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
torch.save(model.state_dict(), "model.pt")
