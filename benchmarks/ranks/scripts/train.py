"""Data parallel over gloo, as people write it: started by torchrun, it knows nothing of autofit."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--epochs", type=int, default=6)
args = parser.parse_args()
dist.init_process_group("gloo")
torch.manual_seed(0)
x = torch.randn(64 * dist.get_world_size() * args.batch_size // 16, 64)
data = TensorDataset(x, x[:, :4].argmax(1))
train = DataLoader(data, batch_size=args.batch_size, sampler=DistributedSampler(data))
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 4)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(args.epochs):
    for number, (inputs, labels) in enumerate(train, start=1):
        (nn.functional.cross_entropy(model(inputs), labels) / args.accum).backward()
        if number % args.accum == 0:
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        right = sum(int((model.module(inputs).argmax(1) == labels).sum()) for inputs, labels in train)
    model.train()
    print(f"rank {os.environ['RANK']}: {right}", flush=True)
dist.destroy_process_group()
