"""DistributedDataParallel in one process, with no_sync() for all but the last micro-batch."""

import argparse
import contextlib
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--batch_size_per_gpu", type=int, default=8)
p.add_argument("--gradient_accumulation", type=int, default=1)
p.add_argument("--num_epochs", type=int, default=2)
args = p.parse_args()
dist.init_process_group("gloo", init_method=f"file://{tempfile.mkdtemp()}/s", rank=0, world_size=1)
torch.manual_seed(0)
data = TensorDataset(torch.randn(48, 32), torch.randint(0, 5, (48,)))
sampler = DistributedSampler(data, shuffle=True)
loader = DataLoader(data, args.batch_size_per_gpu, sampler=sampler)
model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5)))
opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
for epoch in range(args.num_epochs):
    sampler.set_epoch(epoch)
    for i, (x, y) in enumerate(loader, 1):
        sync = i % args.gradient_accumulation == 0
        with contextlib.nullcontext() if sync else model.no_sync():
            (nn.functional.cross_entropy(model(x), y) / args.gradient_accumulation).backward()
        if sync:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            opt.zero_grad(set_to_none=True)
torch.save(model.module.state_dict(), "model.pt")
dist.destroy_process_group()
