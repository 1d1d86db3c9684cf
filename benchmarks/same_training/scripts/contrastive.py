"""Two views of each row, each the other's only match in the batch (InfoNCE, as SimCLR and CLIP have it)."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 16))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
views = torch.randn(48, 32)
loader = DataLoader(TensorDataset(views, views + 0.1 * torch.randn(48, 32)), args.batch_size, shuffle=True)
for epoch in range(args.epochs):
    for one, other in loader:
        a, b = nn.functional.normalize(model(one), dim=1), nn.functional.normalize(model(other), dim=1)
        loss = nn.functional.cross_entropy(a @ b.T / 0.1, torch.arange(len(a)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
torch.save(model.state_dict(), "model.pt")
