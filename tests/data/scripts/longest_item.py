"""Items differ in length, and the batch is padded to the longest: one long item makes a batch large."""

import torch
from torch import nn
from torch.utils.data import DataLoader
from usual import Usual

usual = Usual()


class Ragged(torch.utils.data.Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        return torch.randn(2000 if index == 333 else 20, 32)


def padded(items):
    return nn.utils.rnn.pad_sequence(items, batch_first=True)


ragged = DataLoader(Ragged(), batch_size=usual.args.batch_size, shuffle=True, collate_fn=padded)
for _ in range(3):
    usual.model.train()
    for batch in ragged:
        usual.model(batch).pow(2).mean().backward()
        usual.optimizer.step()
        usual.optimizer.zero_grad()
    usual.validate()
