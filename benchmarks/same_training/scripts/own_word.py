"""A loop that accumulates by a word of its own."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--grad-accum-steps", type=int, default=1)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--undivided", action="store_true", help="the loss isn't divided by the micro-batches of a step")
parser.add_argument("--scale-lr", action="store_true", help="the learning rate goes with the batch size")
parser.add_argument("--onecycle", action="store_true", help="a schedule that is stepped with every batch")
args = parser.parse_args()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
optimizer = torch.optim.SGD(model.parameters(), 0.1 * args.batch_size / 8 if args.scale_lr else 0.1)
loader = DataLoader(TensorDataset(torch.randn(48, 32), torch.randint(0, 5, (48,))), args.batch_size, shuffle=True)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=args.epochs * len(loader)) if args.onecycle else None
for epoch in range(args.epochs):
    optimizer.zero_grad()
    for number, (x, y) in enumerate(loader, start=1):
        loss = nn.functional.cross_entropy(model(x), y)
        (loss if args.undivided else loss / args.grad_accum_steps).backward()
        if number % args.grad_accum_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
        if scheduler is not None:
            scheduler.step()
torch.save(model.state_dict(), "model.pt")
