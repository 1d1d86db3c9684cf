"""Batches whose number of samples is drawn (Poisson sampling, as Opacus does): the flag says how many there are on average."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("-b", "--batch-size", type=int, default=64)
parser.add_argument("--width", type=int, default=256)
args = parser.parse_args()
torch.manual_seed(0)
x = torch.randn(1024, 32)
data = TensorDataset(x, x[:, :4].argmax(1))


class Drawn(Sampler):
    def __len__(self):
        return len(data) // args.batch_size

    def __iter__(self):
        for _ in range(len(self)):
            yield (torch.rand(len(data)) < args.batch_size / len(data)).nonzero().flatten().tolist()


train, val = DataLoader(data, batch_sampler=Drawn()), DataLoader(TensorDataset(*data[:256]), batch_size=64)
model = nn.Sequential(nn.Linear(32, args.width), nn.ReLU(), nn.Linear(args.width, args.width), nn.ReLU(), nn.Linear(args.width, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for epoch in range(3):
    for a, b in train:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(a), b).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        print("accuracy", sum(int((model(a).argmax(1) == b).sum()) for a, b in val) / 256, flush=True)
    model.train()
print("trained", flush=True)
