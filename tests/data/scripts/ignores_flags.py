"""Fault: ignores the batch size it was given."""

from torch.utils.data import DataLoader
from usual import Usual

usual = Usual()
usual.train = DataLoader(usual.data, batch_size=32)
for _ in range(3):
    usual.one_pass()
    usual.validate()
