"""Changes its weights by hand, as word_language_model of PyTorch's examples does: no optimizer of torch's is ever made."""

from __future__ import annotations

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--steps", type=int, default=200, help="in an epoch")
args = parser.parse_args()
torch.manual_seed(0)
x = torch.randn(4096, 32)
y = x[:, :4].argmax(1)
model = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 4))
for _ in range(args.epochs):
    model.train()
    for step in range(args.steps):
        for _ in range(args.accum):
            chosen = torch.randint(0, len(x), (args.batch_size,))
            (nn.functional.cross_entropy(model(x[chosen]), y[chosen]) / args.accum).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad, alpha=-0.1)
        model.zero_grad()
    model.eval()
    with torch.no_grad():
        print("right", sum(int((model(x[at : at + 512]).argmax(1) == y[at : at + 512]).sum()) for at in range(0, 4096, 512)), flush=True)
