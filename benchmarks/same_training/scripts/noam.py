"""An optimizer in a wrapper that sets the learning rate at every step (the Transformer's warm-up)."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class NoamOpt:
    def __init__(self, warmup, optimizer):
        self.optimizer, self._step, self.warmup = (optimizer, 0, warmup)

    def step(self):
        self._step += 1
        rate = 0.5 * min(self._step ** (-0.5), self._step * self.warmup ** (-1.5))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()

    def zero_grad(self):
        self.optimizer.zero_grad()


p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--epochs", type=int, default=2)
args = p.parse_args()
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(48, 32), torch.randint(0, 5, (48,))), args.batch_size, shuffle=True)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
opt = NoamOpt(4, torch.optim.SGD(model.parameters(), 0.0))
for _ in range(args.epochs):
    for x, y in loader:
        opt.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()
torch.save(model.state_dict(), "model.pt")
