"""It ends when the mean loss of its last four batches is low."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--accum", type=int, default=1)
p.add_argument("--epochs", type=int, default=2)
args = p.parse_args()
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(48, 32), torch.randint(0, 5, (48,))), args.batch_size, shuffle=True)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
losses = []
for _ in range(6 * args.epochs):
    for i, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x), y)
        (loss / args.accum).backward()
        losses.append(loss.item())
        if (i + 1) % args.accum == 0:
            opt.step()
            opt.zero_grad()
    if sum(losses[-4:]) / 4 < 1.3:
        break
torch.save(model.state_dict(), "model.pt")
