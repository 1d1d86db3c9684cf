"""After training, a test set goes through in one batch that is larger than any before."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from usual import Usual

usual = Usual()
usual.train_for(4)
test = DataLoader(TensorDataset(torch.randn(8192, 32)), batch_size=8192)
with torch.no_grad():
    for (batch,) in test:
        print("test", usual.model(batch).shape, flush=True)
