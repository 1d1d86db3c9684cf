"""Divides gradients by hand, in passes so short that training stands still between two of them when it is fast-forwarded."""

from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset
from usual import Usual

usual = Usual()
usual.train = DataLoader(TensorDataset(*usual.data[:128]), usual.args.batch_size, shuffle=True)
for _ in range(40):
    for rows, labels in usual.train:
        cross_entropy(usual.model(rows), labels).backward()
        for one in usual.model.parameters():
            one.grad.div_(usual.args.accum)
        usual.optimizer.step()
        usual.optimizer.zero_grad()
