"""A loop with Lightning Fabric."""

import argparse

import torch
from lightning.fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--accumulate-grad-batches", type=int, default=1)
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()
fabric = Fabric(accelerator="cpu", devices=1)
fabric.launch()
fabric.seed_everything(0)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = DataLoader(TensorDataset(torch.randn(48, 32), torch.randint(0, 5, (48,))), args.batch_size, shuffle=True)
model, optimizer = fabric.setup(model, optimizer)
loader = fabric.setup_dataloaders(loader)
for epoch in range(args.epochs):
    for number, (x, y) in enumerate(loader, start=1):
        stepping = number % args.accumulate_grad_batches == 0
        with fabric.no_backward_sync(model, enabled=not stepping):
            fabric.backward(nn.functional.cross_entropy(model(x), y) / args.accumulate_grad_batches)
        if stepping:
            fabric.clip_gradients(model, optimizer, max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
torch.save(model.state_dict(), "model.pt")
