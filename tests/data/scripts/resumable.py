"""A script that saves after every epoch and goes on from what it saved; one seed decides its data, so that two runs can be compared."""

import argparse
import json
import os
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--width", type=int, default=256)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--pause", type=float, default=0.05)
parser.add_argument("--nan-from", type=int, default=10**9, help="training step from which the loss is not finite")
parser.add_argument("--out", default="out")
parser.add_argument("--one-file", action="store_true", help="each checkpoint over the one before")
parser.add_argument("--resume")
args = parser.parse_args()

torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,)))
train = DataLoader(data, batch_size=args.batch_size, num_workers=args.workers)
val = DataLoader(data, batch_size=16)
model = nn.Sequential(
    nn.Conv2d(3, args.width, 3), nn.ReLU(), nn.Conv2d(args.width, 32, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
out = Path(args.out)
out.mkdir(parents=True, exist_ok=True)
first = step = 0
if args.resume:
    saved = torch.load(args.resume)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first, step = saved["epoch"] + 1, saved["step"]
    print(f"going on from epoch {first} with batch {args.batch_size} x {args.accum}", flush=True)
for epoch in range(first, args.epochs):
    model.train()
    for number, (images, labels) in enumerate(train, start=1):
        loss = nn.functional.cross_entropy(model(images), labels) / args.accum
        if step >= args.nan_from:
            loss = loss * float("nan")
        loss.backward()
        if number % args.accum == 0:
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            time.sleep(args.pause)
            print(f"epoch {epoch} step {step} loss: {loss.item() * args.accum:.4f}", flush=True)
    print("validating", flush=True)
    model.eval()
    with torch.no_grad():
        validation = sum(nn.functional.cross_entropy(model(images), labels).item() for images, labels in val) / len(val)
    print("saving", flush=True)
    kept = out / ("last.pt" if args.one_file else f"epoch{epoch}.pt")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, "step": step}, kept)
    with (out / "metrics.jsonl").open("a") as file:
        file.write(
            json.dumps({"epoch": epoch, "steps": step, "loss": validation, "batch": args.batch_size * args.accum, "pid": os.getpid()})
            + "\n"
        )
