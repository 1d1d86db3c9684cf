"""An epoch is so many batches as the script counts, or samples, or all of them, or those of a shorter loader; it never validates, or in the
middle of a pass."""

import argparse

import torch
from torch.utils.data import DataLoader
from usual import Usual

parser = argparse.ArgumentParser()
parser.add_argument("--batches", type=int, default=10**6)
parser.add_argument("--samples", type=int, default=10**6)
parser.add_argument("--beside", type=int, default=640)
parser.add_argument("--one-cycle", action="store_true")
parser.add_argument("--validate-every", type=int, default=10**6)
usual = Usual(parser)
beside = DataLoader(usual.x[: usual.args.beside], usual.args.batch_size)
steps = 3 * len(usual.train) if usual.args.one_cycle else 10**6
schedule = torch.optim.lr_scheduler.OneCycleLR(usual.optimizer, 1e-3, total_steps=steps)
for _ in range(3):
    for number, (batch, _) in enumerate(zip(usual.train, beside, strict=False), start=1):
        usual.step(batch, number)
        schedule.step()
        if number % usual.args.validate_every == 0:
            usual.validate()
        if number == usual.args.batches or number * len(batch[0]) >= usual.args.samples:
            break
