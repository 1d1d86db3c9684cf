"""Two processes, of which the second needs much more memory than there is; the first only sees that its neighbour is gone."""

import torch
import torch.distributed as dist
from torch import nn
from usual import Usual

usual = Usual()
dist.init_process_group("gloo")
usual.model = nn.parallel.DistributedDataParallel(usual.model)
kept = []
for _ in range(3):
    for batch in usual.train:
        usual.step(batch)
        if dist.get_rank() == 1:
            kept.append(torch.ones(16 * 2**20))
