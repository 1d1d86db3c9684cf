"""Trains small models in every usual way, with one word for the batch and none for accumulation; leaves their weights in a file.

With ACCUMULATE set, as somebody does from outside, the weights must be those of the large batch.
"""

import argparse

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR, StepLR
from torch.utils.checkpoint import checkpoint_sequential
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--out", default="weights.pt")
parser.add_argument("--only", nargs="*", default=[])
args = parser.parse_args()
torch.manual_seed(0)
x = torch.randn(200, 16)
y = x[:, :4].argmax(1)


class Stream(IterableDataset):
    def __iter__(self):
        return zip(x, y, strict=True)


def loader(kind):
    chance = torch.Generator().manual_seed(1)
    if kind == "stream":
        return DataLoader(Stream(), batch_size=args.batch_size)
    return DataLoader(TensorDataset(x, y), batch_size=args.batch_size, shuffle=True, generator=chance, drop_last=kind == "drop_last")


def train(
    *,
    data="all",
    make=lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    schedule=None,
    per_batch=True,
    clip=None,
    amp=False,
    zero="first",
    two=False,
    value=None,
    recompute=False,
):
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    batches = loader(data)
    optimizers = [make(part.parameters()) for part in ((model[0], model[2]) if two else (model,))]
    schedulers = [schedule(one, batches) for one in optimizers] if schedule else []
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=2, enabled=amp)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(3):
        for at, (a, b) in enumerate(batches):
            if zero == "first":
                for optimizer in optimizers:
                    optimizer.zero_grad()
            out = checkpoint_sequential(model, 2, a.requires_grad_(), use_reentrant=True) if recompute else model(a)
            loss = criterion(out, b)
            scaler.scale(loss).backward()
            for optimizer in optimizers:
                if clip or value:
                    scaler.unscale_(optimizer)
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            if value:
                nn.utils.clip_grad_value_(model.parameters(), value)
            for optimizer in optimizers:
                scaler.step(optimizer)
            scaler.update()
            if zero == "last":
                model.zero_grad()
            sparse = per_batch == "sparse" and at % (128 // args.batch_size) == 64 // args.batch_size // 2
            if per_batch is True or sparse:
                for scheduler in schedulers:
                    scheduler.step()
        with torch.no_grad():
            float(criterion(model(x), y))
        if not per_batch:
            for scheduler in schedulers:
                scheduler.step()
    return [p.detach().clone() for p in model.parameters()]


def adamw(p):
    return torch.optim.AdamW(p, lr=1e-2)


ways = {
    "sgd": {}, "adamw": {"make": adamw}, "rmsprop": {"make": lambda p: torch.optim.RMSprop(p, lr=1e-3, momentum=0.9)},
    "zero_last": {"make": adamw, "zero": "last"}, "drop_last": {"data": "drop_last"}, "stream": {"data": "stream"}, "clip": {"clip": 0.05},
    "clip_value": {"value": 0.005}, "amp": {"amp": True, "make": adamw}, "amp_clip": {"amp": True, "clip": 0.05, "zero": "last"},
    "one_cycle": {"schedule": lambda o, b: OneCycleLR(o, max_lr=0.2, total_steps=3 * len(b))},
    "cosine_adamw_clip": {"make": adamw, "clip": 0.1, "schedule": lambda o, b: CosineAnnealingLR(o, T_max=3 * len(b))},
    "every_epoch": {"schedule": lambda o, b: StepLR(o, 1, 0.5), "per_batch": False},
    "now_and_then": {"schedule": lambda o, b: StepLR(o, 1, 0.5), "per_batch": "sparse"}, "two_optimizers": {"two": True, "make": adamw},
    "recompute": {"recompute": True},
    "amp_one_cycle_two": {"two": True, "amp": True, "schedule": lambda o, b: OneCycleLR(o, max_lr=0.2, total_steps=3 * len(b))},
}  # fmt: skip
torch.save({name: train(**way) for name, way in ways.items() if not args.only or name in args.only}, args.out)
