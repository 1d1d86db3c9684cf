"""Its batch stands in a dict, and goes to a batch sampler, so that no loader knows it: a person has to name it."""

import argparse

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

CONFIG = {"batch": 2048, "lr": 1e-3, "epochs": 2}
parser = argparse.ArgumentParser()
parser.add_argument("--out", default="weights.pt")
args = parser.parse_args()
torch.manual_seed(0)
x = torch.randn(8192, 64)
train, val = TensorDataset(x, (x[:, :8].sum(1) > 0).long()), TensorDataset(x[:2048], (x[:2048, :8].sum(1) > 0).long())
hidden = [layer for _ in range(3) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), *hidden[:4], nn.Linear(1024, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=CONFIG["lr"], momentum=0.9)
rows = RandomSampler(train, generator=torch.Generator().manual_seed(1))
loader = DataLoader(train, batch_sampler=BatchSampler(rows, CONFIG["batch"], drop_last=False))
for epoch in range(CONFIG["epochs"]):
    model.train()
    for inputs, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(a).argmax(1) == b).sum().item() for a, b in DataLoader(val, batch_size=256))
    print(f"epoch {epoch + 1}/{CONFIG['epochs']}: accuracy {right / len(val):.4f}", flush=True)
torch.save(model.state_dict(), args.out)
