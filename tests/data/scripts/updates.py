"""Ways to make an update of several micro-batches: some are the large batch's, some aren't. ``--kind`` says which."""

from __future__ import annotations

import argparse
import copy
import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--steps", type=int, default=0)
parser.add_argument("--rows", type=int, default=256)
parser.add_argument("--kind", default="mean")
parser.add_argument("--drop-last", action="store_true")
args = parser.parse_args()

torch.manual_seed(0)
inputs, labels = torch.randn(args.rows, 3, 8, 8), torch.randint(0, 5, (args.rows,))
if args.kind == "looks_first":  # at a batch, before the model is made, as notebooks do
    next(iter(DataLoader(TensorDataset(inputs, labels), args.batch_size, shuffle=True)))
adam, channels = args.kind == "averages_of_adam", 16 if args.kind == "averages_of_adam" else 8
first = nn.BatchNorm2d(8) if args.kind == "norm" else nn.InstanceNorm2d(16) if adam else nn.Identity()  # takes away what a bias adds
net = nn.Sequential(nn.Conv2d(3, channels, 3), first, nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(36 * channels, 5))
optimizer = torch.optim.Adam(net.parameters(), 0.01) if adam else torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
weights = torch.tensor([1.0, 5.0, 1.0, 9.0, 0.2] if args.kind == "weighted" else [1.0, 1.1, 1.0, 0.9, 1.05])
if args.kind.startswith("half"):
    net, inputs = net.to(torch.bfloat16), inputs.to(torch.bfloat16)


class Prepares(nn.Module):
    """As transformers' run_clip.py has it."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.Sequential(nn.Identity(), nn.Dropout(0.1))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            prepared = self.steps(rows)
        return prepared + 0.0


on_meta = copy.deepcopy(net).to("meta") if args.kind == "on_meta" else None  # as nanochat counts its operations
average = copy.deepcopy(net).requires_grad_(False) if adam else None  # by hand, moves with every batch
prepares = torch.jit.script(Prepares()) if args.kind == "scripted" else None


def loss_of(batch: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    said = net(batch if prepares is None else prepares(batch))
    if args.kind == "half_by_hand":  # what has to be of its own precision
        said = said @ torch.eye(5, dtype=torch.bfloat16)
    if args.kind.startswith("half"):
        return functional.cross_entropy(said.float(), target, weight=weights if args.kind == "half_weighted" else None)
    if args.kind == "spread":  # a policy's, whose advantages are made alike within each batch
        advantage = batch.mean((1, 2, 3))
        advantage = (advantage - advantage.mean()) / advantage.std()
        return (functional.cross_entropy(said, target, reduction="none") * advantage).mean()
    if args.kind == "contrastive":
        normed = functional.normalize(said, dim=1)
        return functional.cross_entropy(normed @ normed.T / 0.07, torch.arange(len(batch)))
    if args.kind.startswith("weighted"):
        return functional.cross_entropy(said, target, weight=weights)
    return functional.cross_entropy(said, target, reduction="sum" if args.kind.startswith("sum") else "mean")


if args.kind == "pass_of_steps":  # a pass is so many batches, of whatever size
    inputs, labels, args.steps = inputs[: args.steps * args.batch_size], labels[: args.steps * args.batch_size], 0
done = batches = 0
for epoch in range(10**6 if args.steps else args.epochs):
    loader = DataLoader(TensorDataset(inputs, labels), args.batch_size, shuffle=True, drop_last=args.drop_last)
    for number, (batch, target) in enumerate(loader, start=1):
        loss = loss_of(batch, target)
        (loss if args.kind in ("adds_up", "sum") else loss / args.accum).backward()
        batches += 1
        ends = args.kind == "steps_at_the_end" and (number == len(loader) or number % args.accum == 0)
        if ends or (args.kind != "steps_at_the_end" and (batches - (args.kind == "first_alone")) % args.accum == 0):  # as counted from 0
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            done += 1
            if average is not None:
                for kept, weight in zip(average.parameters(), net.parameters(), strict=True):
                    kept.lerp_(weight.detach(), 0.02)
        if args.steps and (batches if args.kind == "counts_batches" else done) >= args.steps:
            raise SystemExit(0)
    if args.kind == "no_longer" and epoch == 1:  # as native/accumulate says it
        print("accumulate: from here on not the large batch's update: batches are skipped", file=sys.stderr, flush=True)
    print(f"epoch {epoch}: {done} steps, loss {loss.item():.4f}", flush=True)
