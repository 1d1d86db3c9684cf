"""Validates as ignite does: the model's mode is set, and gradients are off, within each batch."""

import torch
from torch.utils.data import DataLoader
from usual import Usual

usual = Usual()
val = DataLoader(usual.data, 128)
for _ in range(3):
    usual.one_pass()
    for inputs, _ in val:
        usual.model.eval()
        with torch.no_grad():
            usual.model(inputs)
    usual.model.train()
