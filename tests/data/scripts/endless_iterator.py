"""Steps over an endless iterator; validates every 300 steps; a scaler."""

import argparse
import pathlib
import time

import torch
from torch import nn
from usual import Usual

parser = argparse.ArgumentParser()
parser.add_argument("--until", default="", help="a file that is waited for in validation")
usual = Usual(parser)
model, optimizer, args = usual.model, usual.optimizer, usual.args


def endless():
    while True:
        yield from usual.train


def validate():
    model.eval()
    with torch.no_grad():
        while args.until and not pathlib.Path(args.until).exists():
            time.sleep(0.05)
    usual.validate()


batches = endless()
scaler = torch.amp.GradScaler("cpu", enabled=False)
for number in range(1, 1001):
    for _ in range(args.accum):
        batch = next(batches)
        scaler.scale(nn.functional.cross_entropy(model(batch[0]), batch[1]) / args.accum).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    if number % 300 == 0:
        validate()
