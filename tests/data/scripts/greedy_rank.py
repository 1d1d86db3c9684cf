"""Two processes, of which the second needs much more memory than there is; the first only sees that its neighbour is gone."""

import argparse

import torch
import torch.distributed as dist
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--accum", type=int, default=1)
args = parser.parse_args()
dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Linear(32, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
kept = []
for _ in range(20):
    model(torch.randn(args.batch_size, 32)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 1:
        kept.append(torch.ones(16 * 2**20))
