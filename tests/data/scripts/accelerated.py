"""A loop with accelerate's accumulation: its loader looks a batch ahead, and forces an optimizer step where the loader ends."""

import argparse

from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch.nn.functional import cross_entropy
from usual import Usual

parser = argparse.ArgumentParser()
parser.add_argument("--gradient_accumulation_steps", dest="accum", type=int, default=argparse.SUPPRESS)
parser.add_argument("--dispatch", action="store_true", help="process 0 reads for all")
parser.add_argument("--plain", action="store_true", help="the loader isn't accelerate's: only the accumulation is")
usual = Usual(parser)
how = DataLoaderConfiguration(dispatch_batches=True if usual.args.dispatch else None)
accelerator = Accelerator(gradient_accumulation_steps=usual.args.accum, dataloader_config=how)
usual.model, usual.optimizer = accelerator.prepare(usual.model, usual.optimizer)
train = usual.train if usual.args.plain else accelerator.prepare(usual.train)
for _ in range(3):
    for inputs, targets in train:
        with accelerator.accumulate(usual.model):
            accelerator.backward(cross_entropy(usual.model(inputs), targets))
            usual.optimizer.step()
            usual.optimizer.zero_grad()
    usual.validate()
