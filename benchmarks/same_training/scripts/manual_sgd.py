"""Plain SGD by hand, without torch.optim."""

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
for _ in range(args.epochs):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for q in model.parameters():
                q -= 0.1 * q.grad
torch.save(model.state_dict(), "model.pt")
