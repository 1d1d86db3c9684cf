"""A loop with accelerate's accumulation: its loader looks a batch ahead, and forces an optimizer step where the loader ends."""

from __future__ import annotations

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--gradient_accumulation_steps", "--accum", dest="accum", type=int, default=1)
parser.add_argument("--dispatch", action="store_true", help="process 0 reads for all")
parser.add_argument("--plain", action="store_true", help="the loader isn't accelerate's: only the accumulation is")
parser.add_argument("--samples", type=int, default=2048)
args = parser.parse_args()

torch.manual_seed(0)
how = DataLoaderConfiguration(dispatch_batches=True if args.dispatch else None)
accelerator = Accelerator(gradient_accumulation_steps=args.accum, dataloader_config=how)
x = torch.randn(args.samples, 32)
train = DataLoader(TensorDataset(x, x[:, :4].argmax(1)), batch_size=args.batch_size, shuffle=True)
model = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 4))
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
train = train if args.plain else accelerator.prepare(train)
for _ in range(3):
    model.train()
    for inputs, targets in train:
        with accelerator.accumulate(model):
            accelerator.backward(nn.functional.cross_entropy(model(inputs), targets))
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        print("accuracy", float((model(x[:256]).argmax(1) == x[:256, :4].argmax(1)).float().mean()), flush=True)
