"""Data parallel over gloo; validation on the first process only."""

import argparse

import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler
from usual import Usual

parser = argparse.ArgumentParser()
usual = Usual(parser)
dist.init_process_group("gloo")
usual.train = DataLoader(usual.data, batch_size=usual.args.batch_size, sampler=DistributedSampler(usual.data))
usual.model = nn.parallel.DistributedDataParallel(usual.model)
for epoch in range(12):
    usual.one_pass()
    if (epoch + 1) % 6 == 0:
        if dist.get_rank() == 0:
            usual.validate()
        dist.barrier()
dist.destroy_process_group()
