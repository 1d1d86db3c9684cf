"""Data parallel over gloo, started by torchrun: rank 0 saves after every epoch, and all go on from what it saved."""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--epochs", type=int, default=8)
parser.add_argument("--pause", type=float, default=0.05)
parser.add_argument("--out", default="out")
parser.add_argument("--resume")
args = parser.parse_args()

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,)))
train = DataLoader(data, batch_size=args.batch_size, sampler=DistributedSampler(data, shuffle=False))
val = DataLoader(data, batch_size=16)
plain = nn.Sequential(nn.Conv2d(3, 128, 3), nn.ReLU(), nn.Conv2d(128, 32, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
first = step = 0
saved = torch.load(args.resume) if args.resume else None
if saved:
    plain.load_state_dict(saved["model"])
    first, step = saved["epoch"] + 1, saved["step"]
model = nn.parallel.DistributedDataParallel(plain)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
if saved:
    optimizer.load_state_dict(saved["optimizer"])
out = Path(args.out)
out.mkdir(parents=True, exist_ok=True)
for epoch in range(first, args.epochs):
    model.train()
    for number, (images, labels) in enumerate(train, start=1):
        loss = nn.functional.cross_entropy(model(images), labels) / args.accum
        loss.backward()
        if number % args.accum == 0:
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            time.sleep(args.pause)
            print(f"epoch {epoch} step {step} loss: {loss.item() * args.accum:.4f}", flush=True)
    if rank == 0:
        print("validating", flush=True)
        model.eval()
        with torch.no_grad():
            validation = sum(nn.functional.cross_entropy(plain(images), labels).item() for images, labels in val) / len(val)
        print("saving", flush=True)
        torch.save(
            {"model": plain.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, "step": step}, out / f"epoch{epoch}.pt"
        )
        with (out / "metrics.jsonl").open("a") as file:
            batch = args.batch_size * args.accum * ranks
            file.write(json.dumps({"epoch": epoch, "steps": step, "loss": validation, "batch": batch, "pid": os.getpid()}) + "\n")
    dist.barrier()
dist.destroy_process_group()
