"""Sharpness-aware minimization: two passes for each step."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **kw):
        super().__init__(params, dict(rho=rho, **kw))
        self.base = base(self.param_groups, **kw)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def first_step(self):
        norm = torch.norm(torch.stack([q.grad.norm(p=2) for g in self.param_groups for q in g["params"]]), p=2)
        for g in self.param_groups:
            for q in g["params"]:
                self.state[q]["old"] = q.data.clone()
                q.add_(q.grad * (g["rho"] / (norm + 1e-12)))
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for g in self.param_groups:
            for q in g["params"]:
                q.data = self.state[q]["old"]
        self.base.step()
        self.zero_grad()


p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--epochs", type=int, default=2)
args = p.parse_args()
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(48, 32), torch.randint(0, 5, (48,))), args.batch_size, shuffle=True)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
opt = SAM(model.parameters(), torch.optim.SGD, lr=0.1)
for _ in range(args.epochs):
    for x, y in loader:
        nn.functional.cross_entropy(model(x), y).backward()
        opt.first_step()
        nn.functional.cross_entropy(model(x), y).backward()
        opt.second_step()
torch.save(model.state_dict(), "model.pt")
