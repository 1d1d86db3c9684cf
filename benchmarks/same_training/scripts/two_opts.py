"""Two optimizers for two parts of a model, each with its schedule; both step after every batch."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--epochs", type=int, default=2)
args = p.parse_args()
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randint(0, 50, (48, 6)), torch.randint(0, 5, (48,))), args.batch_size, shuffle=True)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.h = (nn.Embedding(50, 16), nn.Linear(16, 5))

    def forward(self, t):
        return self.h(self.e(t).mean(1))


model = Net()
opts = [torch.optim.SGD(model.e.parameters(), 0.5), torch.optim.AdamW(model.h.parameters(), 0.01)]
scheds = [torch.optim.lr_scheduler.CosineAnnealingLR(o, args.epochs) for o in opts]
for _ in range(args.epochs):
    for t, y in loader:
        [o.zero_grad() for o in opts]
        nn.functional.cross_entropy(model(t), y).backward()
        [o.step() for o in opts]
    [s.step() for s in scheds]
torch.save(model.state_dict(), "model.pt")
