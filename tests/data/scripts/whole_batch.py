"""Text in batches, and the training that the ``whole_batch_*`` scripts have in common: a step takes so many of them."""

import torch
from torch import nn


class Batches:
    """The next rows of the text, each time it is asked."""

    def __init__(self, rows, length):
        self.rows, self.length, self.at = rows, length, 0
        self.text = torch.arange(200_000) * 7919 % 97

    def next_batch(self):
        size = self.rows * self.length
        part = self.text[self.at : self.at + size + 1]
        self.at += size
        return part[:-1].view(self.rows, self.length), part[1:].view(self.rows, self.length)


def train(loader, micro_steps, steps):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(97, 32), nn.Linear(32, 4096), nn.GELU(), nn.Linear(4096, 97))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        optimizer.zero_grad()
        for _ in range(micro_steps):
            x, y = loader.next_batch()
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()) / micro_steps
            loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print("step", step, "loss", float(loss), "norm", float(norm), flush=True)
    torch.save(model.state_dict(), "weights.pt")
