"""The learning rate is far too large."""

import torch
from usual import Usual

usual = Usual()
usual.optimizer = torch.optim.SGD(usual.model.parameters(), lr=1e12)
usual.train_for(2)
