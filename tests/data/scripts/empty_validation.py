"""Drops the last, incomplete batch of its validation, which is the only one."""

from torch.utils.data import DataLoader, TensorDataset
from usual import Usual

usual = Usual()
usual.val = DataLoader(TensorDataset(*usual.data[:48]), batch_size=usual.args.batch_size, drop_last=True)
for _ in range(2):
    usual.one_pass()
    usual.validate()
