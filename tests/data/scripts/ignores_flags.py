"""Fault: ignores the batch size it was given."""

from torch.utils.data import DataLoader
from usual import Usual

usual = Usual()
usual.train = DataLoader(usual.data, batch_size=32)
usual.train_for(3)
