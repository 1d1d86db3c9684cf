"""A small convolutional network with batch norm, and a validation after each epoch."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 5))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
data = TensorDataset(torch.randn(48, 3, 16, 16), torch.randint(0, 5, (48,)))
loader = DataLoader(data, args.batch_size, shuffle=True)
validation = DataLoader(TensorDataset(torch.randn(16, 3, 16, 16), torch.randint(0, 5, (16,))), 8)
for epoch in range(args.epochs):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in validation)
    print(f"epoch {epoch + 1}: {right} of 16 right", flush=True)
torch.save(model.state_dict(), "model.pt")
