"""A wrapper around model and optimizer as Lightning Fabric has it: what is set on it is set on what is inside; the optimizer is a copy.

Gradients are cleared before they are computed, so that they are there in every validation.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Wrapped(nn.Module):
    def __init__(self, inside):
        super().__init__()
        self._inside = inside
        self._ready = True

    def forward(self, *args):
        return self._inside(*args)

    def __setattr__(self, name, value):
        if self.__dict__.get("_ready") and hasattr(self._inside, name):
            setattr(self._inside, name, value)
        if not self.__dict__.get("_ready") or name in self.__dict__:
            super().__setattr__(name, value)


class WrappedOptimizer:
    def __init__(self, optimizer):
        self.__dict__ = {name: value for name, value in optimizer.__dict__.items() if name not in ("state_dict", "step")}
        self.__class__ = type("Wrapped" + type(optimizer).__name__, (WrappedOptimizer, type(optimizer)), {})
        self._optimizer = optimizer

    def step(self, closure=None):
        return self._optimizer.step(closure=closure)


parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--accum", type=int, default=1)
args = parser.parse_args()
x = torch.randn(640, 32)
data = TensorDataset(x, x[:, :4].argmax(1))
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = WrappedOptimizer(torch.optim.AdamW(model.parameters(), lr=1e-3))
model = Wrapped(model)
for epoch in range(12):
    model.train()
    for number, (a, b) in enumerate(DataLoader(data, args.batch_size, shuffle=True)):
        if number % args.accum == 0:
            optimizer.zero_grad()
        (nn.functional.cross_entropy(model(a), b) / args.accum).backward()
        if number % args.accum == args.accum - 1:
            optimizer.step()
    if epoch % 6 == 5:
        model.eval()
        with torch.no_grad():
            print(sum(int((model(a).argmax(1) == b).sum()) for a, b in DataLoader(data, args.batch_size)))
        missing = sum(parameter.grad is None for parameter in model.parameters())
        assert not missing, f"gradients of {missing} parameters are gone"
