"""Breaks where somebody has put something of his own in the place of the data loader."""

from torch.utils.data import DataLoader
from usual import Usual

usual = Usual()
assert not hasattr(DataLoader.__iter__, "__wrapped__"), "this is not the loader I know"
usual.train_for(2)
