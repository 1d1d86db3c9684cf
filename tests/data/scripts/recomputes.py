"""Checkpoints its blocks the reentrant way, which runs a backward pass for each block inside the one that the loop asks for."""

from torch import nn
from torch.utils.checkpoint import checkpoint
from usual import Usual


class Recomputed(nn.Module):
    def __init__(self, inside):
        super().__init__()
        self.inside = inside

    def forward(self, x):
        return checkpoint(self.inside, x, use_reentrant=True)


usual = Usual()
for at in (2, 4):
    usual.model[at] = Recomputed(usual.model[at])
usual.train_for(2)
