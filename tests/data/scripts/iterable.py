"""An iterable dataset with variable lengths, workers, a scaler on bfloat16 autocast."""

import torch
from torch import nn
from torch.utils.data import DataLoader
from usual import Usual

usual = Usual()


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        for number in range(400):
            yield usual.x[number % 640], int(usual.x[number % 640, :4].argmax())


stream = DataLoader(Stream(), batch_size=usual.args.batch_size, num_workers=1)
scaler = torch.amp.GradScaler("cpu")
for _ in range(3):
    for number, batch in enumerate(stream, start=1):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(usual.model(batch[0]), batch[1])
        scaler.scale(loss / usual.args.accum).backward()
        if number % usual.args.accum == 0:
            scaler.step(usual.optimizer)
            scaler.update()
            usual.optimizer.zero_grad()
    usual.validate()
