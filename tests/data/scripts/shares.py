"""Data parallel over gloo, or alone: how its ranks share the rows of a step, and what becomes of their gradients (``--kind``)."""

from __future__ import annotations

import argparse
import contextlib
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--rows", type=int, default=256)
parser.add_argument("--kind", default="shared")
parser.add_argument("--optim", default="adamw")
args = parser.parse_args()
if "RANK" in os.environ:
    dist.init_process_group("gloo")
rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
torch.manual_seed(0)
data = TensorDataset(torch.randn(args.rows, 12), torch.randint(0, 5, (args.rows,)))


class Augmented(Dataset):
    """Each row with noise of its own, anew each time that it is taken."""

    def __len__(self):
        return len(data)

    def __getitem__(self, index):
        row, label = data[index]
        return row + 0.3 * torch.randn_like(row), label


class InTurns(DistributedSampler):
    """Deals out whole batches, as accelerate does: which rank gets a row hangs on the micro-batch."""

    def __iter__(self):
        order = torch.randperm(args.rows, generator=torch.Generator().manual_seed(self.epoch)).tolist()
        dealt = [order[at : at + args.batch_size] for at in range(0, args.rows, args.batch_size)]
        return iter([row for batch in dealt[rank::world] for row in batch])


net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 5))
alone = world == 1 or args.kind == "alone" or (args.kind == "apart_when_accumulating" and args.accum > 1)
if args.kind == "fsdp":
    for layer in (net[0], net[3], net):
        fully_shard(layer, mesh=init_device_mesh("cpu", (world,)))
model = net if alone or args.kind == "fsdp" else nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), 0.1) if args.optim == "sgd" else torch.optim.AdamW(net.parameters(), 1e-3)
shared = DistributedSampler(data, num_replicas=world, rank=rank)
loader = DataLoader(data, args.batch_size * (world if args.kind == "whole_batch" else 1), sampler=shared)
if args.kind == "no_sampler":
    loader = DataLoader(data, args.batch_size)
elif args.kind == "augments":
    loader = DataLoader(Augmented(), args.batch_size, sampler=InTurns(data, num_replicas=world, rank=rank))
elif args.kind == "own_order":  # no two ranks draw the same rows, but each goes through all of them
    loader = DataLoader(data, args.batch_size, shuffle=True, generator=torch.Generator().manual_seed(rank))
for epoch in range(args.epochs):
    for number, (batch, target) in enumerate(loader, start=1):
        due = number % args.accum == 0
        with contextlib.nullcontext() if due or args.kind != "no_sync" else model.no_sync():
            loss = functional.cross_entropy(model(batch), target, reduction="sum" if args.kind == "sum" else "mean")
            (loss if args.kind in ("adds_up", "sum") else loss / args.accum).backward()
        if due:
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    print(f"rank {rank}: epoch {epoch}: loss {loss.item():.4f}", flush=True)
if dist.is_initialized():
    dist.destroy_process_group()
