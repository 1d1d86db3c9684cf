"""As YOLOv5 loads its data: one iterator for all epochs, over a sampler that never ends; batches are asked for one by one."""

from torch.utils.data import DataLoader
from usual import Usual


class Repeated:
    """A sampler, over and over."""

    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        while True:
            yield from iter(self.sampler)


class OneIterator(DataLoader):
    """Its workers live as long as it does."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", Repeated(self.batch_sampler))
        self.iterator = super().__iter__()

    def __len__(self):
        return len(self.batch_sampler.sampler)

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)


usual = Usual()
usual.train = OneIterator(usual.data, batch_size=usual.args.batch_size, shuffle=True)
usual.train_for(3)
